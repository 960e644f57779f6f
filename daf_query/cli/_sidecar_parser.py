"""The parser of ``daf index``: indexes, and the sidecars of files that are read in place."""

from __future__ import annotations

from daf_query.cli._parser_parts import Commands, add_command, add_quiet, byte_size


def add_index(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "index",
        "store an index with which rows are found by name or by another value at once; of a file "
        "that is read in place, also the other layout of a matrix",
        "  daf index pbmc.daf.zarr cell              # the names, and strings with many values\n"
        "  daf index pbmc.daf.zarr cell barcode age\n"
        "  daf index slide.daf.zarr cell --points x y   # cells within a box or a polygon\n"
        "  daf index scenes.zarr meta bbox           # geometries of a group of Zarr arrays\n"
        "  daf index atlas.h5ad --matrix X           # writes atlas.h5ad.daf.zarr beside it\n"
        "  daf index atlas.h5ad obs barcode --matrix X --max-bytes 10GB\n"
        "  daf index /shared/atlas.h5ad --matrix X --into mine.daf.zarr\n"
        "  daf index atlas.h5ad --refresh            # it was copied, or changed\n"
        "  daf index atlas.h5ad --remove",
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("axis", metavar="AXIS", nargs="?")
    parser.add_argument("vectors", metavar="VECTOR", nargs="*", help="'name' for the entries")
    parser.add_argument(
        "--points", metavar=("X", "Y"), nargs=2, help="two vectors of coordinates, indexed together"
    )
    sidecar = parser.add_argument_group("of a file that is read in place, such as atlas.h5ad")
    sidecar.add_argument(
        "--matrix",
        metavar="NAME",
        action="append",
        default=[],
        help="write its other layout, and decoded columns, into a sidecar; repeatable",
    )
    sidecar.add_argument(
        "--into", metavar="SIDECAR", help="a name ending in .daf.zarr, instead of beside the file"
    )
    sidecar.add_argument(
        "--max-bytes", metavar="SIZE", type=byte_size, help="how large it may become, such as 10GB"
    )
    sidecar.add_argument(
        "--refresh", action="store_true", help="make the sidecar fit the file as it is now"
    )
    sidecar.add_argument("--remove", action="store_true", help="delete the sidecar")
    add_quiet(parser)
    parser.any_of = ("axis", "matrix", "refresh", "remove", "into")
    parser.set_defaults(command="_axes.index_command")
