"""A notebook as text: .ipynb, or an HTML page or Markdown by nbconvert, which runs nothing and fetches nothing."""

import json
import logging
from typing import Any, Final, Literal, get_args

from cellhouse.model import CallReason, FailedPrecondition
from cellhouse.notebooks.tamed import tamed

Format = Literal["ipynb", "html", "md"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

# The code is highlighted, and so escaped, by Pygments; a sanitiser behind it takes minutes for a long one.
_INPUT: Final = """
{%- block input %}
<div class="jp-CodeMirrorEditor jp-Editor jp-InputArea-editor" data-type="inline"><div class="cm-editor cm-s-jupyter">
{% if cell.metadata.highlit %}{{ cell.source | highlight_code(metadata=cell.metadata) }}{% else %}<pre>{{ cell.source | e }}</pre>{% endif %}
</div></div>
{%- endblock input %}
"""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'"
_PAGE: Final = (
    """{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}<meta http-equiv="Content-Security-Policy" content="POLICY" />{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block footer_js -%}{%- endblock -%}
""".replace("POLICY", POLICY)
    + _INPUT
)
# A fence longer than any in the code, and no language named: the record does not say which it was.
_MARKDOWN: Final = """{%- extends 'index.md.j2' -%}
{% block input %}
{{ cell.metadata.fence }}
{{ cell.source }}
{{ cell.metadata.fence }}
{% endblock input %}
{% block traceback_line %}
{{ line | indent }}
{% endblock traceback_line %}
"""


class NotInstalled(FailedPrecondition):
    """The packages that make pages are not there."""

    def __init__(self, form: str, error: ImportError) -> None:
        super().__init__(
            f"--format {form}: {error.name or error} is not installed; install cellhouse[notebooks], or take --format ipynb",
            reason=CallReason.POLICY_UNAVAILABLE,
        )


def render(notebook: dict[str, Any], form: Format, *, active: bool = False) -> str:
    """The document. `active` leaves HTML, SVG and scripts of outputs as the code made them, to run where it is opened.

    Changes `notebook`. NotInstalled where nbconvert is needed and missing.
    """
    if form == "ipynb":
        return _ipynb(notebook)
    try:
        import nbconvert
        import nbformat
        from traitlets.config import Config
    except ImportError as error:
        raise NotInstalled(form, error) from None

    silent = logging.getLogger("cellhouse.nbconvert")
    silent.disabled = True  # what it has to say of alternative texts is nothing to whoever exports
    exporters: Any = nbconvert  # of whose classes no types are known
    # No output goes into a file of its own: the document is one.
    options: dict[str, Any] = {
        "log": silent,
        "config": Config({"ExtractOutputPreprocessor": {"enabled": False}}),
    }
    if not active:
        options["raw_template"] = _PAGE if form == "html" else _MARKDOWN
        tamed(notebook, form)
    if form == "html":
        # Only for colours: in which language the code is, is not on record.
        notebook["metadata"].setdefault("language_info", {"name": "python", "pygments_lexer": "python3"})
        exporter = exporters.HTMLExporter(template_name="lab", **options)
    else:
        exporter = exporters.MarkdownExporter(template_name="markdown", **options)
    nodes: Any = nbformat
    text: str
    text, _ = exporter.from_notebook_node(nodes.from_dict(notebook), {"metadata": {"name": "Cellhouse"}})
    return text.replace("\x00", "\ufffd")


def _ipynb(notebook: dict[str, Any]) -> str:
    """Valid by nbformat's schema, where it is there to say so."""
    try:
        import nbformat
    except ImportError:
        pass  # made by the same schema all the same
    else:
        nbformat.validate(notebook, version=4, version_minor=5)
    return ipynb_text(notebook)


def ipynb_text(notebook: dict[str, Any]) -> str:
    """As nbformat writes it."""
    return json.dumps(notebook, ensure_ascii=False, allow_nan=False, indent=1, sort_keys=True) + "\n"
