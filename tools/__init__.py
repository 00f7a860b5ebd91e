"""What authors run: recording notebooks, generating exercises, building the book."""

import sys

# jsonschema checks IRIs with this package where it is installed. No notebook has any, and an import of the
# package builds a grammar: two seconds of every command here.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
