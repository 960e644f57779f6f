"""The arguments of each command, with examples.

Must not import what it parses for: a command is named by its module in this room and its function,
and imported when it runs.  A test compares the lists of choices with what they stand for.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from daf_query.cli._annotate_parser import add_annotate
from daf_query.cli._concat_parser import add_concat
from daf_query.cli._diagnose_parser import add_diagnose
from daf_query.cli._explore_parser import add_explore
from daf_query.cli._extract_parser import add_extract
from daf_query.cli._look_parser import add_look
from daf_query.cli._parser_parts import (
    Commands,
    Help,
    Parser,
    add_axis_names,
    add_command,
    add_counts,
    add_format,
    add_max_rows,
    add_memory,
    add_no_pager,
    add_no_provenance,
    add_overlay,
    add_packing,
    add_param,
    add_quiet,
    add_strict,
)
from daf_query.cli._profile_parser import add_profile
from daf_query.cli._provenance_parser import add_provenance
from daf_query.cli._saving_parser import add_saving
from daf_query.cli._serve_parser import add_serve
from daf_query.cli._sidecar_parser import add_index
from daf_query.cli._split_parser import add_split
from daf_storage.spi import lazy_module

if TYPE_CHECKING:
    from importlib import metadata

    from daf_query.cli import _completion as completion
else:
    completion = lazy_module("daf_query.cli._completion")
    metadata = lazy_module("importlib.metadata")

FORMATS: Final = ("table", "csv", "tsv", "json", "ndjson", "parquet", "arrow")


class _Version(argparse.Action):
    """Prints the version, which takes a while to find, when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"daf {metadata.version('daf-query')}")
        parser.exit()


class _Completion(argparse.Action):
    """Prints the completion of a shell, which needs a package that others do not."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: Any, shell: Any, __: str | None = None
    ) -> None:
        print(completion.completion_of(parser, shell))
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="daf",
        formatter_class=Help,
        description="SQL over single-cell metadata, then just the slice of the matrix you ask for.",
        epilog="""examples:
  daf import pbmc.h5ad pbmc.daf.zarr --obs-is cell --var-is gene
  daf info pbmc.daf.zarr
  daf sql atlas.h5ad "SELECT donor, count(*) AS cells FROM obs GROUP BY donor"
  daf sql pbmc.daf.zarr "SELECT donor, count(*) AS cells FROM cell GROUP BY donor"
  daf extract pbmc.daf.zarr --matrix X --rows "age > 60" --columns "is_marker" -o markers.h5ad
  daf demo

exit codes: 0 done, 1 the request failed, 2 wrong usage, 3 repaired, but data is lost or damaged,
  130 interrupted, 143 terminated
'daf COMMAND --help' says more; DAF_DEBUG=1 shows where an error comes from.""",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "tcsh"),
        help="print what makes a shell complete commands and options, and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_import(commands)
    _add_info(commands)
    add_look(commands)
    _add_sql(commands)
    add_extract(commands)
    add_profile(commands)
    add_diagnose(commands)
    add_split(commands)
    _add_export(commands)
    _add_convert(commands)
    add_concat(commands)
    add_saving(commands)
    add_annotate(commands)
    _add_reorder(commands)
    add_index(commands)
    add_provenance(commands)
    _add_verify(commands)
    _add_repair(commands)
    add_serve(commands)
    add_explore(commands)
    _add_demo(commands)
    return parser


def _add_import(commands: Commands) -> None:
    parser = add_command(
        commands,
        "import",
        "turn an h5ad file, or an AnnData in Zarr, into a Daf data set, streaming its matrices",
        "  daf import pbmc.h5ad pbmc.daf.zarr\n"
        "  daf import pbmc.h5ad pbmc.daf.zarr.zip\n"
        "  daf import monday.h5ad week.dafs.zarr.zip#/monday\n"
        "  daf import pbmc.h5ad pbmc.daf.zarr --obs-is cell --var-is gene --X-is UMIs\n"
        "  daf import pbmc.h5ad pbmc.daf.zarr --axis-of donor --make-unique --overwrite\n"
        "  daf import pbmc.h5ad pbmc.daf.zarr --one-layout --strict --quiet\n"
        "  daf import pbmc.h5ad small.daf.zarr --packed --counts-as uint16\n"
        "  daf import pbmc.h5ad small.daf.zarr --codec blosc-zstd-shuffle --level 7 \\\n"
        "      --chunk-kb 128 --zarr-format 3 --overwrite\n"
        "  daf import atlas.h5ad atlas.daf.zarr --memory 4GiB",
    )
    parser.add_argument("source", metavar="IN.h5ad")
    parser.add_argument(
        "destination", metavar="OUT", help="such as pbmc.daf.zarr or pbmc.daf.zarr.zip"
    )
    parser.add_argument("--obs-is", metavar="AXIS", help="name of the axis of obs (default: obs)")
    parser.add_argument("--var-is", metavar="AXIS", help="name of the axis of var (default: var)")
    parser.add_argument("--X-is", metavar="NAME", help="name of the main matrix (default: X)")
    parser.add_argument(
        "--axis-of",
        metavar="COLUMN",
        action="append",
        default=[],
        help="make this categorical an axis of its own; those with colours become one anyway",
    )
    parser.add_argument(
        "--one-layout",
        action="store_true",
        help="store matrices once, by obs; by default also the other way, which doubles the size",
    )
    parser.add_argument(
        "--make-unique", action="store_true", help="append -1, -2 ... to names that occur twice"
    )
    add_memory(parser)
    add_strict(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace what is at OUT")
    add_packing(parser)
    add_counts(parser)
    add_quiet(parser)
    parser.set_defaults(command="_transfer.import_command")


def _add_info(commands: Commands) -> None:
    parser = add_command(
        commands,
        "info",
        "say what a data set holds; reads metadata only",
        "  daf info pbmc.daf.zarr\n  daf info pbmc.daf.zarr --format json | jq .axes\n"
        "  daf info pbmc.daf.zarr --diagram > pbmc.mmd\n  daf info atlas.h5ad --values\n"
        "  daf info atlas.h5ad --overlay notes.daf.zarr\n"
        "  daf info atlas.h5ad --obs-is cell --var-is gene\n"
        "  daf info 'runs/*.h5ad'",
    )
    parser.add_argument("path", metavar="PATH")
    output = parser.add_mutually_exclusive_group()
    add_format(output)
    output.add_argument(
        "--diagram", action="store_true", help="the axes and their relations, for Mermaid"
    )
    output.add_argument(
        "--values",
        action="store_true",
        help="also draw ranges and top values of vectors, of samples where they are large",
    )
    add_overlay(parser)
    add_axis_names(parser)
    parser.takes_patterns = True
    parser.set_defaults(command="_info.info_command")


def _add_sql(commands: Commands) -> None:
    parser = add_command(
        commands,
        "sql",
        "ask a SQL question; each axis is a table with the columns name, index and its vectors; "
        "without a QUERY, on a terminal, be a prompt",
        '  daf sql pbmc.daf.zarr "SELECT type, avg(age) FROM cell GROUP BY type"\n'
        '  daf sql atlas.h5ad "SELECT type, avg(age) FROM obs GROUP BY type"\n'
        '  daf sql pbmc.daf.zarr "SELECT * FROM cell WHERE age > 60" -o old.parquet\n'
        '  daf sql pbmc.daf.zarr "SELECT name FROM gene WHERE is_marker" --format ndjson\n'
        '  daf sql pbmc.daf.zarr "SHOW TABLES"\n'
        '  daf sql pbmc.daf.zarr "SELECT name FROM cell WHERE age > 60" --analyze\n'
        '  daf sql pbmc.daf.zarr "SELECT name FROM cell WHERE age > 60" --explain\n'
        '  daf sql pbmc.daf.zarr "SELECT * FROM gene" --max-rows 0\n'
        '  daf sql pbmc.daf.zarr "SELECT * FROM gene" --no-pager\n'
        "  daf sql pbmc.daf.zarr                    # a prompt: history, completion, .help\n"
        "  daf sql 'runs/*.daf.zarr' \"SELECT dataset, count(*) FROM cell GROUP BY dataset\"\n"
        "  daf sql pbmc.daf.zarr -f query.sql -o old.arrow --no-provenance\n"
        "  daf sql pbmc.daf.zarr 'SELECT name FROM cell WHERE donor = $who' --param who=N3\n"
        '  daf sql atlas.daf.zarr --overlay notes.daf.zarr "SELECT label, age FROM cell"\n'
        '  daf sql atlas.h5ad --obs-is cell --var-is gene "SELECT count(*) FROM cell"\n'
        "  daf sql pbmc.daf.zarr --table samples=samples.csv \\\n"
        '      "SELECT cell.name, centre FROM cell JOIN samples ON donor = samples.id"',
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument(
        "query", metavar="QUERY", nargs="?", help="'-': read it from standard input"
    )
    parser.add_argument(
        "-f", "--file", metavar="FILE.sql", help="a file with the query; comments are allowed"
    )
    parser.add_argument(
        "--table",
        metavar="NAME=FILE",
        action="append",
        default=[],
        help="a table of your own, .csv, .tsv, .parquet or .arrow (also .csv.gz); repeatable",
    )
    add_param(parser)
    parser.add_argument(
        "--format", choices=FORMATS, help="default: by the suffix of FILE, else table"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="default, or '-': standard output; .csv.gz is packed"
    )
    add_max_rows(parser)
    add_no_pager(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print the plan instead of the rows, and execute nothing",
    )
    parser.add_argument(
        "--analyze",
        action="store_true",
        help="execute it, and print which ranges and values it read instead of the rows",
    )
    add_overlay(parser)
    add_axis_names(parser)
    add_no_provenance(parser)
    add_quiet(parser)
    parser.one_of = ("query", "file")
    parser.takes_patterns = True
    parser.has_prompt = True
    parser.set_defaults(command="_query.sql_command")


def _add_export(commands: Commands) -> None:
    parser = add_command(
        commands,
        "export",
        "turn a whole data set into an h5ad file, streaming its matrices",
        "  daf export pbmc.daf.zarr pbmc.h5ad\n"
        "  daf export atlas.daf.zarr atlas.h5ad --obs-is cell --var-is gene --X-is UMIs\n"
        "  daf export atlas.h5ad labelled.h5ad --overlay notes.daf.zarr\n"
        "  daf export pbmc.daf.zarr pbmc.h5ad --strict --overwrite --quiet",
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("destination", metavar="OUT.h5ad")
    parser.add_argument("--obs-is", metavar="AXIS", help="the axis of obs (default: as imported)")
    parser.add_argument("--var-is", metavar="AXIS", help="the axis of var (default: as imported)")
    parser.add_argument("--X-is", metavar="NAME", help="the main matrix (default: as imported)")
    add_overlay(parser)
    add_strict(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace what is at OUT.h5ad")
    add_quiet(parser)
    parser.set_defaults(command="_transfer.export_command")


def _add_convert(commands: Commands) -> None:
    parser = add_command(
        commands,
        "convert",
        "copy a data set into the format that the path asks for, and compare the two",
        "  daf convert pbmc.daf.zarr pbmc.daf.zarr.zip\n"
        "  daf convert pbmc.daf.zarr.zip pbmc.h5df\n"
        "  daf convert monday.daf.zarr week.dafs.zarr.zip#/monday\n"
        "  daf convert atlas.daf.zarr atlas.daf.zarr.zip --packed --zarr-format 3\n"
        "  daf convert atlas.daf.zarr small.daf.zarr --codec zstd --level 19 --chunk-kb 128 \\\n"
        "      --overwrite --quiet\n"
        "  daf convert atlas.daf.zarr small.daf.zarr --packed --counts-as UMIs=uint16\n"
        "  daf convert atlas.daf.zarr copy.daf.zarr --link\n"
        "  daf convert atlas.daf.zarr atlas.h5df --memory 200MB",
    )
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("destination", metavar="DST")
    parser.add_argument("--overwrite", action="store_true", help="replace what is at DST")
    add_packing(parser)
    add_counts(parser)
    parser.add_argument(
        "--link",
        action="store_true",
        help="between directories: share the files that are the same, by hard links",
    )
    add_memory(parser)
    add_quiet(parser)
    parser.set_defaults(command="_transfer.convert_command")


def _add_reorder(commands: Commands) -> None:
    parser = add_command(
        commands,
        "reorder",
        "put the entries of an axis into another order; its vectors and matrices follow",
        '  daf reorder pbmc.daf.zarr cell --by "type, age DESC"\n'
        '  daf reorder pbmc.daf.zarr gene --by "name"',
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("axis", metavar="AXIS")
    parser.add_argument(
        "--by", required=True, metavar="ORDER", help="what comes after ORDER BY in SQL"
    )
    add_quiet(parser)
    parser.set_defaults(command="_axes.reorder_command")


def _add_verify(commands: Commands) -> None:
    parser = add_command(
        commands,
        "verify",
        "read a whole data set and list what is wrong with it; exit code 1 if something is",
        "  daf verify pbmc.daf.zarr.zip\n"
        "  daf verify days.dafs.zarr.zip          # all data sets of an archive\n"
        "  daf verify pbmc.daf.zarr --format json | jq '.findings[].path'",
    )
    _add_report(parser)
    parser.set_defaults(command="_upkeep.verify_command")


def _add_repair(commands: Commands) -> None:
    parser = add_command(
        commands,
        "repair",
        "mend what a crash or an interrupted copy left; exit code 3 if data is lost or damaged",
        "  daf repair pbmc.daf.zarr.zip\n  daf repair pbmc.daf.zarr && daf verify pbmc.daf.zarr\n"
        "  daf repair pbmc.daf.zarr --format json | jq .lost",
    )
    _add_report(parser)
    parser.set_defaults(command="_upkeep.repair_command")


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH")
    add_format(parser)
    add_quiet(parser)


def _add_demo(commands: Commands) -> None:
    parser = add_command(
        commands,
        "demo",
        "import, query, slice and plot the PBMC data set that scanpy ships",
        "  daf demo\n  daf demo somewhere/else\n  daf demo somewhere/pbmc.daf.zarr.zip",
    )
    parser.add_argument(
        "target",
        metavar="TARGET",
        nargs="?",
        default="daf-demo",
        help="a folder, or the data set to make in one (default: daf-demo/pbmc.daf.zarr)",
    )
    parser.set_defaults(command="_demo.demo_command")
