"""Kernel environments: the Python prefixes that executed code runs in, and the kernels they bring."""

from cellhouse.environments.ipython import NATIVE_KERNEL
from cellhouse.environments.kernelspec import DEFAULT_KERNEL, KernelSpec
from cellhouse.environments.prefix import Environment, read_environment
from cellhouse.environments.search import (
    DEFAULT_ENVIRONMENT,
    ENV_HOME,
    ENV_PATH,
    Survey,
    beside_service,
    default_search,
    distrusted_home,
    environment_home,
    find_environment,
    list_environments,
    survey,
)
from cellhouse.environments.use import Use

__all__ = [
    "DEFAULT_ENVIRONMENT",
    "DEFAULT_KERNEL",
    "ENV_HOME",
    "ENV_PATH",
    "NATIVE_KERNEL",
    "Environment",
    "KernelSpec",
    "Survey",
    "Use",
    "beside_service",
    "default_search",
    "distrusted_home",
    "environment_home",
    "find_environment",
    "list_environments",
    "read_environment",
    "survey",
]
