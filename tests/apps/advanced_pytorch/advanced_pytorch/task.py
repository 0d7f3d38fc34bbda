"""The model, the data, and how one learns from the other."""

from collections import OrderedDict
from functools import cache

import torch
from flwr.app import MetricRecord
from sklearn.datasets import load_digits
from torch import nn

digits = cache(load_digits)  # simulated clients share it


def Net():
    """Return a network: a hidden layer with batch normalisation, whose counter is an integer without dimensions."""
    body = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU())
    return nn.Sequential(OrderedDict(body=body, head=nn.Linear(32, 10)))


def images(partition, partitions=10):
    """Return the images of one client, or those that no client has (None)."""
    x, y = (torch.tensor(a) for a in digits(return_X_y=True))
    x = x.float() / 16
    if partition is None:
        return x[1500:], y[1500:]
    return x[:1500][partition::partitions], y[:1500][partition::partitions]


def fit(net, x, y, lr):
    """Take ten steps and return the last one's loss."""
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def measure(net, x, y):
    """Return loss and accuracy."""
    net.eval()
    scores = net(x)
    return nn.functional.cross_entropy(scores, y).item(), (scores.argmax(1) == y).float().mean().item()


def evaluate(server_round, arrays):
    """Evaluate the global model on images that no client has."""
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = measure(net, *images(None))
    return MetricRecord({"loss": loss, "accuracy": accuracy})
