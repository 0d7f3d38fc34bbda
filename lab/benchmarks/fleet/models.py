"""Models of a fleet by name, with real names and shapes and random values.

``resnet18`` is torchvision's ResNet-18: 122 arrays, 45 MB (He et al., 2016). ``narrow`` has as many arrays in the same
proportions with 4.9 MB in all, and ``halves`` has two arrays of that size together.
"""

import json
from pathlib import Path

import numpy as np

from aoi_fl.protocol.arrays import to_record

MODELS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))  # shapes by name of the array


def record(name):
    """Return the model of this name."""
    rng = np.random.default_rng(1)
    return to_record(
        {
            key: rng.standard_normal(shape).astype(np.float32) if shape else np.array(0)
            for key, shape in MODELS[name].items()
        }
    )
