"""Code that tests share.

``typechecking`` is named by the import hook of the top conftest, which does not import it itself.
"""

from helpers import typechecking as typechecking
