"""Results as Markdown: a picture, tables, and sentences."""


def written(experiment, found):
    """Return an experiment's source and picture, verdicts, tables, and sentences."""
    parts = [f"{experiment.source}.", f"![{experiment.title}]({experiment.name}.png)"]
    if found.claims:
        parts.append(table(("verdict", "claim", "paper", "ours"), [_verdict(claim) for claim in found.claims]))
    parts += [f"{shown.caption}:\n\n{table(shown.head, shown.rows)}" for shown in found.tables]
    return "".join(f"{part}\n\n" for part in (*parts, found.paragraph) if part)


def listed(sentences, points):
    """Return a paragraph's sentences, and its points below them."""
    return sentences + "\n" * bool(points) + "".join(f"\n- {point}" for point in points)


def table(head, rows):
    """Return a table; line breaks and bars, as in |t|, would end a cell, and are removed or escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _verdict(claim):
    return (f"**{claim.judgement}**: {claim.reason}", f"{claim.claim} ({claim.source})", claim.theirs, claim.ours)


def _cell(text):
    return " ".join(text.split()).replace("|", "\\|")
