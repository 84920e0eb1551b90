"""A page may run its own script, known by its hash, and fetch nothing."""

from effective_attention.policy import content_policy


def test_the_policy_of_a_script() -> None:
    policy = content_policy("alert(1)", images="data:")
    assert "script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='" in policy
    assert "img-src data:;" in policy
    assert "default-src 'none'" in policy


def test_the_policy_of_a_page_without_script_or_picture() -> None:
    policy = content_policy(None)
    assert "script-src 'none';" in policy
    assert "img-src 'none';" in policy
