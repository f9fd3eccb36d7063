"""Readers of maps: RoadTracer's text, GeoJSON, GraphML and masks, alone or in pairs of truth and prediction."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError, did_you_mean
from vergence.data.images import SUFFIXES, read_image
from vergence.maps.graph import RoadGraph, from_networkx, road_graph
from vergence.maps.raster import Mask, graph_of_mask
from vergence.maps.settings import Unit
from vergence.reading.files import read_text
from vergence.reading.graphs import read_graphml
from vergence.reading.tables import read_json

_TEXT = frozenset({".graph", ".txt"})
_JSON = frozenset({".geojson", ".json"})
_XML = frozenset({".graphml", ".xml"})
READABLE = _TEXT | _JSON | _XML | SUFFIXES
_EARTH = 6_371_008.8  # mean radius, metres


@dataclass(frozen=True, eq=False)
class Pair:
    """A true map and a predicted one; without a prediction, a map to inject mistakes into."""

    name: str
    truth: RoadGraph
    prediction: RoadGraph | None = None
    method: str = ""


@dataclass(frozen=True)
class Pairs:
    """Maps in files, read on access."""

    files: tuple[tuple[str, str, Path, Path | None], ...]
    """Name, method, truth, prediction."""

    def __len__(self) -> int:
        return len(self.files)

    def of(self, method: str) -> Pairs:
        """The pairs of one method."""
        kept = tuple(row for row in self.files if row[1] == method)
        if not kept:
            raise VergenceError(f"no method {method!r}{did_you_mean(method, {row[1] for row in self.files})}")
        return Pairs(kept)

    def __getitem__(self, index: int) -> Pair:
        name, method, truth, prediction = self.files[index]
        return Pair(name, read_map(truth), read_map(prediction) if prediction else None, method)


def read_map(path: Path) -> RoadGraph:
    """Reads the roads of a file, in its own units."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise VergenceError(f"{path} does not exist")
    if suffix not in READABLE:
        raise VergenceError(
            f"{path} is not a map: expected RoadTracer text (.graph), .geojson, .graphml or a mask (.png)"
        )
    try:
        if suffix in SUFFIXES:
            return graph_of_mask(read_mask(path))
        read = _read_text if suffix in _TEXT else _read_geojson if suffix in _JSON else _read_graphml
        return read(path)
    except VergenceError as error:
        raise error if path.name in str(error) else VergenceError(f"{path}: {error}") from None


def read_mask(path: Path) -> Mask:
    """Reads a picture as a mask: pixels brighter than half are road."""
    picture = read_image(path)
    return np.asarray((picture.float().mean(0) > 127.5).numpy(), bool)


def _read_text(path: Path) -> RoadGraph:
    """RoadTracer: one line ``x y`` per node, an empty line, one line ``i j`` per edge (or per direction of it)."""
    text = read_text(path, "RoadTracer text")
    if not text:
        raise VergenceError(f"{path} is empty: expected lines 'x y', an empty line, lines 'i j'")
    head, blank, tail = ("", "\n", text) if text.startswith("\n") else text.replace("\r\n", "\n").partition("\n\n")
    if not blank:
        raise VergenceError(f"{path} has no empty line between nodes 'x y' and edges 'i j': is it cut short?")
    nodes = _numbers(head, float, path, "a node 'x y'")
    edges = _numbers(tail, int, path, "an edge 'i j'")
    for edge in edges:
        if max(map(abs, edge)) > len(nodes):  # before an array is made of it, which holds no larger numbers
            raise VergenceError(
                f"{path}: the edge {edge[0]} {edge[1]} names a node that does not exist: there are {len(nodes)}"
            )
    listed = set(edges)
    both = sum((j, i) in listed for i, j in listed if i != j)
    one_way = [pair for pair in listed if pair[0] != pair[1] and pair[::-1] not in listed]
    # Files list every edge once, or in both directions; a truncated file breaks this at its end.
    if both and len(one_way) == 1:
        raise VergenceError(f"{path} lists its edges in both directions but {one_way[0]} in one: is it cut short?")
    return road_graph(nodes, edges)


def _numbers(text: str, kind: Any, path: Path, what: str) -> list[tuple[Any, Any]]:
    rows = []
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        try:
            first, second = (kind(word) for word in words)
        except ValueError:
            raise VergenceError(f"{path} has the line {line[:40]!r} where {what} is expected") from None
        rows.append((first, second))
    return rows


def _read_geojson(path: Path) -> RoadGraph:
    """Lines of a feature collection, a feature or a geometry. Roads meet where they share a vertex."""
    lines = list(_lines(read_json(path), path))
    try:
        points = [(float(p[0]), float(p[1])) for line in lines for p in line]
    except (TypeError, ValueError, IndexError):
        raise VergenceError(f"{path} has a coordinate that is not two numbers") from None
    edges, start = [], 0
    for line in lines:
        edges += [(i, i + 1) for i in range(start, start + len(line) - 1)]
        start += len(line)
    return road_graph(points, edges)


def _lines(content: Any, path: Path, depth: int = 0) -> list[Any]:
    kind = content.get("type") if isinstance(content, dict) else None
    kind = kind if isinstance(kind, str) else None
    if kind == "LineString" and isinstance(content.get("coordinates"), list):
        return [content["coordinates"]]
    if kind == "MultiLineString" and isinstance(content.get("coordinates"), list):
        return [line for line in content["coordinates"] if isinstance(line, list)]
    inner = {"FeatureCollection": "features", "GeometryCollection": "geometries", "Feature": "geometry"}.get(kind or "")
    if inner and inner in content and depth < 4:
        parts = content[inner] if isinstance(content[inner], list) else [content[inner]]
        return [line for part in parts if part is not None for line in _lines(part, path, depth + 1)]
    if kind in ("Point", "MultiPoint", "Polygon", "MultiPolygon"):
        return []
    raise VergenceError(f"{path} is not GeoJSON: expected features with LineString or MultiLineString, found {kind!r}")


def _read_graphml(path: Path) -> RoadGraph:
    """Nodes with ``x`` and ``y`` (or ``pos`` as text); an edge's ``geometry`` as WKT is followed if there is one."""
    import networkx as nx

    graph = read_graphml(path)
    for node, data in graph.nodes(data=True):
        if isinstance(data.get("pos"), str):
            data["pos"] = tuple(re.findall(r"[-+\w.]+", data["pos"])[:2])
        if not data:
            raise VergenceError(
                f"{path} has the node {node!r} without x and y: an edge may name a node that is missing"
            )
    whole = from_networkx(graph, str(path))
    bent = [(u, v, data["geometry"]) for u, v, data in graph.edges(data=True) if isinstance(data.get("geometry"), str)]
    if not bent:
        return whole
    straight = nx.Graph()
    straight.add_nodes_from(graph.nodes(data=True))
    straight.add_edges_from(
        (u, v) for u, v, data in graph.edges(data=True) if not isinstance(data.get("geometry"), str)
    )
    result = from_networkx(straight, str(path))
    points: list[tuple[float, float]] = []
    edges: list[tuple[int, int]] = []
    for _, _, text in bent:
        line = _wkt(text, path)
        edges += [(len(points) + i, len(points) + i + 1) for i in range(len(line) - 1)]
        points += line
    return result.joined(road_graph(points, edges))


def _wkt(text: str, path: Path) -> list[tuple[float, float]]:
    inner = re.fullmatch(r"\s*LINESTRING\s*\((.*)\)\s*", text, re.IGNORECASE | re.DOTALL)
    try:
        return [(float(p.split()[0]), float(p.split()[1])) for p in inner.group(1).split(",")]  # type: ignore[union-attr]
    except (AttributeError, ValueError, IndexError):
        raise VergenceError(f"{path} has the geometry {text[:40]!r}: expected LINESTRING (x y, x y, ...)") from None


# Units ----------------------------------------------------------------------------------------------------------------


def in_pixels(pair: Pair, unit: Unit, metres_a_pixel: float) -> Pair:
    """Converts a pair to pixels. Degrees are longitude and latitude, projected around the centre of the truth."""
    graphs = [g for g in (pair.truth, pair.prediction) if g is not None and len(g)]
    points = np.concatenate([g.points for g in graphs]) if graphs else np.zeros((0, 2))
    if unit == "pixels":
        if len(points) and np.ptp(points, axis=0).max() < 2 and (np.abs(points) <= (180, 90)).all():
            raise VergenceError(
                f"the map {pair.name!r} is less than 2 pixels wide: its coordinates look like longitude and latitude "
                "(unit degrees) or need another unit"
            )
        return pair
    if unit == "degrees" and len(points) and not (np.abs(points) <= (180, 90)).all():
        raise VergenceError(f"the map {pair.name!r} has coordinates that are not longitude and latitude")
    middle = graphs[0].points.mean(0) if graphs else np.zeros(2)

    def flat(graph: RoadGraph) -> RoadGraph:
        if unit == "metres":
            return graph.moved(graph.points / metres_a_pixel)
        scale = math.radians(1) * _EARTH * np.array([math.cos(math.radians(float(middle[1]))), -1.0])
        return graph.moved((graph.points - middle) * scale / metres_a_pixel)  # y grows downwards, as in pictures

    prediction = flat(pair.prediction) if pair.prediction is not None else None
    return Pair(pair.name, flat(pair.truth), prediction, pair.method)


# Data sets ------------------------------------------------------------------------------------------------------------


def matched(truth: Path, prediction: Path) -> Pairs:
    """Pairs two files, or the files of two folders by their names before the first dot."""
    for path in (truth, prediction):
        if not path.exists():
            raise VergenceError(f"{path} does not exist; expected a map or a folder of maps")
    if truth.is_file() and prediction.is_file():
        return Pairs(((_stem(truth), "", truth, prediction),))
    if truth.is_file() or prediction.is_file():
        raise VergenceError(f"{truth} and {prediction} are a file and a folder: expected two files or two folders")
    true, predicted = _maps_in(truth), _maps_in(prediction)
    for name in true:
        if name not in predicted:
            raise VergenceError(f"{prediction} has no map for {true[name].name}{did_you_mean(name, predicted)}")
    alone = next((name for name in predicted if name not in true), None)
    if alone is not None:
        raise VergenceError(f"{truth} has no map for {predicted[alone].name}{did_you_mean(alone, true)}")
    return Pairs(tuple((name, "", true[name], predicted[name]) for name in true))


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _maps_in(folder: Path) -> dict[str, Path]:
    maps: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix.lower() in READABLE:
            if _stem(path) in maps:
                raise VergenceError(
                    f"{folder} has two maps named {_stem(path)!r}: {maps[_stem(path)].name}, {path.name}"
                )
            maps[_stem(path)] = path
    if not maps:
        raise VergenceError(f"{folder} holds no maps: expected .graph, .geojson, .graphml or masks (.png)")
    return maps


def _read_folder(path: Path, split: str) -> Pairs:
    """``truth/`` and ``prediction/`` with maps of the same names."""
    for name in ("truth", "prediction"):
        if not (path / name).is_dir():
            raise VergenceError(f"{path} has no folder {name!r}: expected {path.name}/truth and {path.name}/prediction")
    return matched(path / "truth", path / "prediction")


def _read_roadtracer(path: Path, split: str) -> Pairs:
    """``CITY.graph`` is the truth, ``CITY.METHOD.graph`` a method's prediction."""
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder with CITY.graph and CITY.METHOD.graph")
    files = sorted(path.glob("*.graph"))
    truths = {p.name.removesuffix(".graph"): p for p in files if p.name.count(".") == 1}
    rows = []
    for file in files:
        city, dot, method = file.name.removesuffix(".graph").partition(".")
        if dot:
            if city not in truths:
                raise VergenceError(f"{path} has {file.name} but no {city}.graph")
            rows.append((city, method, truths[city], file))
    if not rows:
        raise VergenceError(f"{path} holds no CITY.graph with a CITY.METHOD.graph")
    return Pairs(tuple(rows))


def _read_maps(path: Path, split: str) -> Pairs:
    """A map, or a folder of maps, to inject mistakes into."""
    files: Sequence[Path] = [path] if path.is_file() else list(_maps_in(path).values())
    return Pairs(tuple((_stem(file), "", file, None) for file in files))


LAYOUTS = {
    "folder": Layout(_read_folder, "folders truth/ and prediction/ with maps of the same names"),
    "roadtracer": Layout(_read_roadtracer, "CITY.graph with CITY.METHOD.graph"),
    "maps": Layout(_read_maps, "a map, or a folder of maps, to inject mistakes into"),
}
