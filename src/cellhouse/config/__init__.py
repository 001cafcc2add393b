"""Configuration: every setting of a service as one typed model, its value, and where that came from."""

from cellhouse.config.catalogue import Setting, catalogue
from cellhouse.config.load import ConfigInvalid, Flag, default_file, load
from cellhouse.config.loaded import Loaded, Origin, Source
from cellhouse.config.model import Config
from cellhouse.config.show import to_json, to_toml

__all__ = [
    "Config",
    "ConfigInvalid",
    "Flag",
    "Loaded",
    "Origin",
    "Setting",
    "Source",
    "catalogue",
    "default_file",
    "load",
    "to_json",
    "to_toml",
]
