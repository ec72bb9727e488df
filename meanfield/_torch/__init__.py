"""Everything that needs torch, and the one place where it is imported: `load` is the door."""

from __future__ import annotations

from types import ModuleType

from hermite.errors import MissingDependencyError

_INSTALL = "install it again: pip install --force-reinstall 'isogram[torch]'"


def _broken(error: Exception) -> MissingDependencyError:
    return MissingDependencyError(f"torch is installed but cannot be imported ({error}); {_INSTALL}")


def load() -> ModuleType:
    """torch; raises MissingDependencyError where it is not installed, or is and does not start."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise _broken(error) from error
        raise MissingDependencyError("this needs torch: pip install 'isogram[torch]'") from error
    except Exception as error:  # a library that it was built for may be missing, which is an OSError on some systems
        raise _broken(error) from error
    module: ModuleType = torch
    if not hasattr(module, "Tensor"):  # an empty folder of that name, left by an uninstallation, is a module, too
        raise _broken(ImportError(f"{list(module.__path__)} holds no library"))
    return module
