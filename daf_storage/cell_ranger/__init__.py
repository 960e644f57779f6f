"""Folders of Matrix Market files, as Cell Ranger writes them and GEO has them.

**Nouns.** A *matrix folder* has ``matrix.mtx``, ``barcodes.tsv`` and ``features.tsv`` (of older
versions ``genes.tsv``), each perhaps gzipped.

Must not know AnnData.
"""

from daf_storage.cell_ranger._matrix_folder import import_10x_mtx
