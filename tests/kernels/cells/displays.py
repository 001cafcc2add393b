"""What display() shows, updates and clears."""

from tests.kernels.cell import cell

PNG = "b'\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR\\0\\0\\0\\x02\\0\\0\\0\\x03\\x08\\x02\\0\\0\\0'"
"""The beginning of a PNG of 2 × 3 pixels, as code."""

OBJECTS = [
    cell("display-a-value", "display(1, 'two', [3])"),
    cell("display-nothing", "display()"),
    cell("display-returns", "print(display(1), display(2, display_id='named'))"),
    cell(
        "display-imported",
        "from IPython.display import display as show\nfrom IPython.core.display_functions import display as d\nshow(1); d(2)",
    ),
    cell("html", "from IPython.display import HTML\nHTML('<b>x</b>')"),
    cell(
        "html-with-metadata",
        "from IPython.display import HTML\ndisplay(HTML('<i>', metadata={'isolated': True}))",
    ),
    cell(
        "html-of-a-file",
        "from IPython.display import HTML\nopen('page.html', 'w').write('<p>p')\nHTML(filename='page.html')",
    ),
    cell("html-long-text-warns", "from IPython.display import HTML\nHTML('<iframe src=\"x\"></iframe>')"),
    cell("markdown", "from IPython.display import Markdown\nMarkdown('# *x*')"),
    cell(
        "math-and-latex",
        "from IPython.display import Latex, Math\ndisplay(Math(r'\\frac{1}{2}'), Latex('$y$'))",
    ),
    cell("json", "from IPython.display import JSON\nJSON({'a': [1, None, 'é']}, expanded=True, root='top')"),
    cell("svg", 'from IPython.display import SVG\nSVG(\'<svg xmlns="http://x" width="4"><g/></svg>\')'),
    cell(
        "javascript",
        "from IPython.display import Javascript\nJavascript('alert(1)', lib=['a.js'], css=['b.css'])",
    ),
    cell("image-of-png-bytes", f"from IPython.display import Image\nImage(data={PNG})"),
    cell(
        "image-with-a-size",
        f"from IPython.display import Image\nImage(data={PNG}, width=20, height=30, alt='some')",
    ),
    cell("image-of-a-wrong-kind", "from IPython.display import Image\nImage(data=b'nothing', format='png')"),
    cell("image-of-an-address", "from IPython.display import Image\nImage(url='http://localhost/a.png')"),
    cell(
        "jpeg-and-gif",
        "from IPython.display import Image\ndisplay(Image(b'\\xff\\xd8\\xff\\xe0'), Image(b'GIF89a12'))",
    ),
    cell("png-bytes-and-base64", f"from IPython.display import display_png\ndisplay_png({PNG}, raw=True)"),
    cell("audio", "from IPython.display import Audio\nAudio([0, 0.5, -0.5, 1], rate=8000)"),
    cell("video", "from IPython.display import Video\nVideo('a.mp4', width=100)"),
    cell(
        "video-embedded",
        "from IPython.display import Video\nVideo(data=b'\\0\\1', embed=True, mimetype='video/mp4')",
    ),
    cell(
        "iframe", "from IPython.display import IFrame\nIFrame('http://localhost', width=300, height=200, a=1)"
    ),
    cell(
        "file-link",
        "from IPython.display import FileLink\nopen('some.txt', 'w').close()\nFileLink('some.txt')",
    ),
    cell("file-link-to-nowhere", "from IPython.display import FileLink\nFileLink('nowhere.txt')"),
    cell(
        "file-links",
        "import os\nfrom IPython.display import FileLinks\nos.makedirs('sub/deep', exist_ok=True)\nopen('sub/a', 'w').close()\nFileLinks('sub')",
    ),
    cell("geojson", "from IPython.display import GeoJSON\nGeoJSON({'type': 'Point', 'coordinates': [1, 2]})"),
    cell("pretty", "from IPython.display import Pretty\nPretty('as it is\\n  here')"),
    cell("code", "from IPython.display import Code\nCode('x = 1', language='python')"),
    cell("youtube", "from IPython.display import YouTubeVideo\nYouTubeVideo('abc', start=3)"),
    cell("progress-bar", "from IPython.display import ProgressBar\nfor _ in ProgressBar(3): pass"),
    cell("textdisplay-subclass", "from IPython.display import TextDisplayObject\nTextDisplayObject('t')"),
    cell(
        "display-of-many-kinds",
        "from IPython.display import display_html, display_json, display_latex, display_markdown, display_pretty\n"
        "display_html('<b>', raw=True); display_json({'a': 1}, raw=True); display_latex('$x$', raw=True)\n"
        "display_markdown('*m*', raw=True); display_pretty([1], raw=False)",
    ),
]

BUNDLES = [
    cell("raw-bundle", "display({'text/plain': 'p', 'text/html': '<h>'}, raw=True)"),
    cell("raw-bundle-with-metadata", "display({'text/html': '<h>'}, raw=True, metadata={'text/html': {'isolated': True}})"),
    cell("raw-bundle-with-bytes", f"display({{'image/png': {PNG}, 'application/x-own': b'\\0\\xff'}}, raw=True)"),
    cell("raw-bundle-own-type", "display({'application/vnd.own.v1+json': {'a': [1, {'b': None}]}}, raw=True)"),
    cell("raw-bundle-empty", "display({}, raw=True)"),
    cell("raw-bundle-of-no-dict", "display('text', raw=True)"),
    cell("raw-bundle-odd-json", "display({'application/json': {'nan': float('nan'), 'inf': float('inf')}}, raw=True)"),
    cell(
        "raw-bundle-not-json",
        "import datetime\ndisplay({'application/json': {'when': datetime.datetime(2020, 1, 2), 't': (1, 2)}}, raw=True)",
    ),
    cell("raw-bundle-of-objects", "display({'application/json': {'o': object()}}, raw=True)"),
    cell("raw-bundle-of-a-set", "display({'application/json': {'s': {1}}}, raw=True)"),
    cell("raw-bundle-with-keys-of-int", "display({'application/json': {1: 'one', None: 'none'}}, raw=True)"),
    cell("raw-bundle-numpy", "import numpy as np\ndisplay({'application/json': {'n': np.int64(3), 'f': np.float32(0.5)}}, raw=True)"),
    cell("raw-transient", "display({'text/plain': 'p'}, raw=True, transient={'display_id': 'd1', 'own': 1})"),
    cell("include", "class Both:\n    def _repr_html_(self): return '<b>'\n    def _repr_latex_(self): return '$'\ndisplay(Both(), include=['text/html'])"),
    cell("exclude", "display(Both(), exclude=['text/html'])", before="class Both:\n    def _repr_html_(self): return '<b>'"),
    cell("publish-display-data", "from IPython.display import publish_display_data\npublish_display_data({'text/plain': 'x'}, metadata={'a': 1})"),
    cell("publish-by-the-shell", "get_ipython().display_pub.publish({'text/plain': 'x', 'text/html': '<x>'}, source='mine')"),
    cell("1000-displays", "for i in range(1000):\n    display({'text/plain': str(i), 'text/html': f'<b>{i}</b>'}, raw=True)"),
    cell("display-of-2-mb", "from IPython.display import HTML\nHTML('<p>' + 'z' * 2_000_000)"),
    cell("display-in-a-function-of-a-thread", "import threading\nt = threading.Thread(target=lambda: display('from a thread'))\nt.start(); t.join()"),
]  # fmt: skip

UPDATES = [
    cell("display-id", "display('first', display_id='one')"),
    cell("update", "from IPython.display import update_display\nupdate_display('second', display_id='one')"),
    cell("update-in-the-same-cell", "h = display('a', display_id=True)\nh.update('b')\nh.update('c')"),
    cell("update-from-a-later-cell", "handle.update('later')", before="handle = display('soon', display_id=True)"),
    cell("update-of-an-unknown-id", "update_display('lost', display_id='never shown')", before="from IPython.display import update_display"),
    cell("handle-displays-again", "handle.display('again')\nprint(type(handle.display_id).__name__)\nhandle", before="handle = display('x', display_id='h')"),
    cell("handle-made-by-hand", "from IPython.display import DisplayHandle\nd = DisplayHandle('by-hand')\nd.display(1); d.update(2)"),
    cell("update-with-raw", "h = display({'text/plain': 'r1'}, raw=True, display_id='raw')\nh.update({'text/plain': 'r2'}, raw=True)"),
    cell("update-keyword", "display('u', display_id='kw', update=True)"),
    cell("update-without-an-id", "display('u', update=True)"),
    cell("100-updates", "h = display(0, display_id=True)\nfor i in range(1, 101):\n    h.update(i)"),
    cell("clear", "from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('stays')"),
    cell("clear-and-wait", "print('gone later')\nclear_output(wait=True)\nprint('in its place')", before="from IPython.display import clear_output"),
    cell("clear-last", "print('gone')\ndisplay(1)\nclear_output(wait=True)", before="from IPython.display import clear_output"),
    cell("clear-displays", "for i in range(5):\n    clear_output(True)\n    display(i)", before="from IPython.display import clear_output"),
    cell("clear-by-the-shell", "get_ipython().display_pub.clear_output()"),
    cell("display-hook-called", "import sys\nsys.displayhook('by hand')\nsys.displayhook(None)\nprint(type(sys.displayhook).__name__)"),
    cell("display-hook-of-builtins", "import sys\nsys.__displayhook__([1, 2])"),
]  # fmt: skip

CELLS = [*OBJECTS, *BUNDLES, *UPDATES]
