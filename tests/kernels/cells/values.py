"""Values of every kind at the end of a cell."""

from tests.kernels.cell import cell

PLAIN = [
    cell("none", "None"),
    cell("nothing", ""),
    cell("only-a-comment", "# nothing here"),
    cell("only-blanks", "   \n\t\n"),
    cell("bool", "True"),
    cell("str", "'it\\'s'"),
    cell("str-of-lines", "'one\\ntwo\\tthree\\n'"),
    cell("bytes", "bytes(range(256))"),
    cell("bytearray-and-memoryview", "[bytearray(b'ab'), memoryview(b'ab')[0:1].tobytes()]"),
    cell("int-of-200-bits", "2**200 + 1"),
    cell("int-too-long-to-write", "10**5000"),
    cell("float", "[0.1, 1e300, -0.0, 1/3]"),
    cell("float-nan", "float('nan')"),
    cell("float-infinite", "-float('inf')"),
    cell("complex", "3 - 4j"),
    cell("nested", "{'a': [1, (2, {3}), {'b': None}], 'c': ({}, [], ())}"),
    cell("nested-past-a-line", "{f'key {i}': list(range(i)) for i in range(12)}"),
    cell("list-of-2000", "list(range(2000))"),
    cell("dict-keeps-its-order", "{'z': 1, 'a': 2, 1: 3}"),
    cell("set", "{3, 1, 2}, frozenset({2, 1}), set()"),
    cell("long-str", "'abc ' * 5000"),
    cell("list-in-itself", "inner = [1]\ninner.append(inner)\ninner"),
    cell(
        "dataclass",
        """
        from dataclasses import dataclass, field

        @dataclass
        class Point:
            x: int
            y: list = field(default_factory=lambda: [1, 2])

        Point(3)
        """,
    ),
    cell(
        "named-tuple-and-enum",
        """
        import collections, enum
        Pair = collections.namedtuple("Pair", "left right")
        Colour = enum.Enum("Colour", "RED GREEN")
        [Pair(1, "b"), Colour.RED, Colour]
        """,
    ),
    cell(
        "collections",
        """
        import collections
        [collections.OrderedDict(a=1), collections.Counter("aab"), collections.defaultdict(list, {1: [2]}),
         collections.deque([1, 2], maxlen=3), collections.ChainMap({1: 2}, {3: 4})]
        """,
    ),
    cell(
        "standard-library",
        """
        import datetime, decimal, fractions, pathlib, re, types, uuid
        [datetime.datetime(2020, 1, 2, 3, 4), datetime.timedelta(5), decimal.Decimal("1.10"), fractions.Fraction(1, 3),
         pathlib.PurePosixPath("/a/b"), re.compile("a+"), types.SimpleNamespace(a=1), uuid.UUID(int=5)]
        """,
    ),
    cell("class", "class Thing: pass\nThing"),
    cell("function", "def double(x):\n    return 2 * x\ndouble"),
    cell("lambda-builtin-module", "import math\n[lambda: 1, len, str.upper, math, print]"),
    cell("generator", "(i for i in range(3))"),
    cell("ellipsis-range-slice-type", "[..., range(3), slice(1), int, type, NotImplemented]"),
    cell("exception-as-a-value", "ValueError('not raised', 3)"),
    cell("plain-object", "object()"),
]

WITH_REPRS = [
    cell("own-repr", "class Own:\n    def __repr__(self):\n        return 'mine\\nof two lines'\nOwn()"),
    cell("repr-of-html", "class Html:\n    def _repr_html_(self):\n        return '<b>bold</b>'\nHtml()"),
    cell(
        "reprs-of-all-kinds",
        """
        class Many:
            def _repr_html_(self): return "<p>"
            def _repr_markdown_(self): return "*m*"
            def _repr_latex_(self): return "$x$"
            def _repr_svg_(self): return "<svg/>"
            def _repr_json_(self): return {"a": [1, None]}
            def _repr_javascript_(self): return "1;"
            def _repr_png_(self): return b"\\x89PNG\\r\\n\\x1a\\n0"
            def _repr_jpeg_(self): return b"\\xff\\xd8\\xff0"
            def _repr_pdf_(self): return b"%PDF-1"
        Many()
        """,
    ),
    cell(
        "repr-with-metadata",
        "class Meta:\n    def _repr_html_(self):\n        return '<i>', {'isolated': True}\nMeta()",
    ),
    cell(
        "repr-of-none",
        "class Shy:\n    def _repr_html_(self):\n        return None\n    def __repr__(self): return 'shy'\nShy()",
    ),
    cell(
        "repr-by-mimebundle",
        """
        class Bundle:
            def _repr_mimebundle_(self, include=None, exclude=None):
                return {"application/x-own+json": {"n": 1}, "text/html": "<u>"}, {"text/html": {"width": 3}}
        Bundle()
        """,
    ),
    cell(
        "repr-by-mimebundle-with-bytes",
        """
        class Binary:
            def _repr_mimebundle_(self, **kwargs):
                return {"image/png": b"\\x89PNG\\r\\n\\x1a\\n", "application/octet-stream": b"\\x00\\xff", "text/plain": "b"}
        Binary()
        """,
    ),
    cell(
        "ipython-display",
        "class Shows:\n    def _ipython_display_(self):\n        print('shown by itself')\nShows()",
    ),
    cell("failing-repr", "class Bad:\n    def __repr__(self):\n        raise ValueError('no repr')\nBad()"),
    cell("repr-that-is-no-str", "class Odd:\n    def __repr__(self):\n        return 3\nOdd()"),
    cell("failing-repr-in-a-list", "class Bad2:\n    def __repr__(self):\n        return 1 / 0\n[1, Bad2()]"),
    cell(
        "failing-repr-html",
        """
        class Half:
            def _repr_html_(self): raise KeyError("no html")
            def __repr__(self): return "still here"
        Half()
        """,
    ),
    cell(
        "failing-mimebundle",
        """
        class NoBundle:
            def _repr_mimebundle_(self, **kwargs): raise RuntimeError("no bundle")
            def __repr__(self): return "plain"
        NoBundle()
        """,
    ),
    cell(
        "failing-ipython-display",
        "class NoShow:\n    def _ipython_display_(self):\n        raise OSError('not shown')\nNoShow()",
    ),
    cell("html-of-a-wrong-type", "class Wrong:\n    def _repr_html_(self):\n        return 17\nWrong()"),
    cell(
        "repr-that-prints",
        "class Loud:\n    def __repr__(self):\n        print('while asked')\n        return 'loud'\nLoud()",
    ),
    cell(
        "pretty-protocol",
        """
        class Pretty:
            def _repr_pretty_(self, p, cycle):
                with p.group(2, "<<", ">>"):
                    p.pretty([1, 2])
        {"a": Pretty()}
        """,
    ),
    cell(
        "formatter-for-a-type",
        """
        class Foreign: pass
        formatter = get_ipython().display_formatter.formatters["text/html"]
        _ = formatter.for_type(Foreign, lambda value: "<em>foreign</em>")
        Foreign()
        """,
    ),
]

SEVERAL = [
    cell("semicolon", "1 + 1;"),
    cell("semicolon-and-a-comment", "1 + 1;  # not shown"),
    cell("semicolon-in-a-str", "'a;'"),
    cell("several-expressions", "1\n'two'\n3"),
    cell("expressions-in-one-line", "1; 2; 3"),
    cell("assignment-last", "4\nlast = 5"),
    cell("expression-in-a-block", "if True:\n    6"),
    cell("decorated-last", "7\ndef f():\n    return 8"),
    cell(
        "all-expressions",
        "1\n'two'\nNone\nif True:\n    3\nx4 = 4",
        before="%config InteractiveShell.ast_node_interactivity = 'all'",
    ),
    cell(
        "last-expression-or-assignment",
        "first = 1\nsecond = [2]",
        before="%config InteractiveShell.ast_node_interactivity = 'last_expr_or_assign'",
    ),
    cell("no-expression", "1", before="%config InteractiveShell.ast_node_interactivity = 'none'"),
    cell("last-again", "1\n2", before="%config InteractiveShell.ast_node_interactivity = 'last_expr'"),
    cell("silent", "print('said')\n'value'", silent=True, store_history=False),
    cell("silent-error", "1/0", silent=True, store_history=False),
    cell("not-stored", "'value of no history'", store_history=False),
    cell("stored-again", "'value of history'"),
    cell("underscores", "_, __, ___", before=("'first'", "'second'", "'third'")),
    cell(
        "in-and-out",
        "print(_1, _i1, Out[1], In[1], _oh is Out, _ih is In, sorted(Out), len(In), _i, _ii)",
        before=("40 + 2", "None"),
        alone=True,
    ),
    cell("underscore-taken", "_", before=("_ = 'own'", "'value'")),
    cell("underscore-given-back", "_", before=("del _", "'value'")),
]

CELLS = [*PLAIN, *WITH_REPRS, *SEVERAL]
