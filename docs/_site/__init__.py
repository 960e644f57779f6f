"""Parts of the build of the documentation site: what Sphinx cannot do by its options."""
