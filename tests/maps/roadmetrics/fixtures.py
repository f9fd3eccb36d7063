"""Small maps in every form, written from the published descriptions with plain text, JSON and Pillow alone."""

from __future__ import annotations

import json

from PIL import Image, ImageDraw

NODES = [(0.5, 10.25), (200.125, 12.5), (200.0, 210.75), (10.5, 220.0), (410.25, 14.5), (205.0, 400.125)]
EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 4), (2, 5)]


def _text(nodes=NODES, edges=EDGES):
    both = [pair for i, j in edges for pair in ((i, j), (j, i))]
    return "".join(f"{x:.6f} {y:.6f}\n" for x, y in nodes) + "\n" + "".join(f"{i} {j}\n" for i, j in both)


def _geojson(nodes=NODES, edges=EDGES):
    features = [
        {"type": "Feature", "properties": {}, "geometry": {"type": "LineString", "coordinates": [nodes[i], nodes[j]]}}
        for i, j in edges
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


def _graphml(nodes=NODES, edges=EDGES):
    keys = "".join(f'<key id="{k}" for="node" attr.name="{k}" attr.type="double"/>' for k in "xy")
    body = "".join(
        f'<node id="n{i}"><data key="x">{x}</data><data key="y">{y}</data></node>' for i, (x, y) in enumerate(nodes)
    )
    body += "".join(f'<edge source="n{i}" target="n{j}"/>' for i, j in edges)
    return (
        f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}'
        f'<graph id="G" edgedefault="undirected">{body}</graph></graphml>'
    )


def mask(path, nodes=NODES, edges=EDGES):
    picture = Image.new("L", (430, 420))
    pen = ImageDraw.Draw(picture)
    for i, j in edges:
        pen.line([nodes[i], nodes[j]], fill=255, width=9)
    picture.save(path)


def _folder(write, suffix):
    def make(path):
        for role in ("truth", "prediction"):
            (path / role).mkdir(parents=True)
            for name in ("east", "west"):
                file = path / role / f"{name}{suffix}"
                write(file)

    return make


def _roadtracer(path):
    path.mkdir(parents=True)
    for name in ("amsterdam.graph", "amsterdam.segmentation.graph", "boston.graph", "boston.segmentation.graph"):
        (path / name).write_text(_text())


def _maps(path):
    path.mkdir(parents=True)
    (path / "paris.graph").write_text(_text())


layouts = {
    "folder": {
        "graph": _folder(lambda p: p.write_text(_text()), ".graph"),
        "geojson": _folder(lambda p: p.write_text(_geojson()), ".geojson"),
        "graphml": _folder(lambda p: p.write_text(_graphml()), ".graphml"),
        "mask": _folder(mask, ".png"),
    },
    "roadtracer": _roadtracer,
    "maps": _maps,
}


def prediction(folder):
    (folder / "truth.graph").write_text(_text())
    mask(folder / "prediction.png", edges=EDGES[:-1])
    return ["truth.graph", "prediction.png"]


quick = {"data.cities": 1, "data.blocks": 4}
"""Changes that make it quick to judge."""
