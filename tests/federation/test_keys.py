"""Keys of a federation: signed, separate, secret, and never replaced."""

import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedsparse.errors import OptionError
from fedsparse.federation.folder import ServerFolder, SiteFolder
from fedsparse.federation.keys import VALID_DAYS, make_keys


@pytest.fixture
def folder(tmp_path):
    made = ServerFolder(tmp_path / "federation")
    make_keys(made, ["server.example.org", "192.0.2.7"], ["bari", "cork"])
    return made


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_authority_signs_the_server_for_its_hosts(folder):
    own = certificate(folder.certificate)
    own.verify_directly_issued_by(certificate(folder.authority))
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = names.get_values_for_type(x509.DNSName)
    addresses = [str(own) for own in names.get_values_for_type(x509.IPAddress)]
    assert hosts == ["server.example.org", "localhost"]
    assert addresses == ["192.0.2.7", "127.0.0.1", "::1"]
    assert (own.not_valid_after_utc - own.not_valid_before_utc).days == VALID_DAYS


def test_a_site_gets_the_authority_and_its_own_key_and_nothing_else(folder):
    package = folder.package_of("bari")
    assert sorted(path.name for path in package.iterdir()) == ["bari.key", "ca.crt"]
    assert (package / "ca.crt").read_bytes() == folder.authority.read_bytes()
    private = load_ssh_private_key(SiteFolder(package).key.read_bytes(), None)
    public = load_ssh_public_key(folder.sites()["bari"].read_bytes())
    assert private.public_key().public_numbers() == public.public_numbers()


def test_nobody_else_may_read_a_key(folder):
    for path in (folder.key, folder.authority_key, SiteFolder(folder.package_of("cork")).key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_sites_can_be_added_and_what_exists_is_kept(folder):
    before = {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    assert make_keys(folder, [], ["cork", "delft"]) == ["delft"]
    assert all(path.read_bytes() == content for path, content in before.items())
    assert list(folder.sites()) == ["bari", "cork", "delft"]


MISTAKES = {
    "no host": ("new", [], ["bari"], "name the host by which sites reach the server with --host"),
    "other hosts": ("old", ["other"], [], "keeps its hosts; leave --host out"),
    "a name that is a path": ("old", [], ["../bari"], 'cannot be called "../bari"'),
    "no name": ("old", [], [""], 'cannot be called ""'),
}


@pytest.mark.parametrize(("which", "hosts", "sites", "told"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told(folder, tmp_path, which, hosts, sites, told):
    place = folder if which == "old" else ServerFolder(tmp_path / "new")
    with pytest.raises(OptionError, match=told):
        make_keys(place, hosts, sites)


def test_a_folder_without_keys_is_told_what_to_do(tmp_path):
    with pytest.raises(OptionError, match=r"make keys with 'fedsparse federation keys'"):
        ServerFolder(tmp_path).check()
    with pytest.raises(OptionError, match=r"there is no .*ca.crt; name the folder"):
        SiteFolder(tmp_path).check()
    with pytest.raises(OptionError, match=r"holds 0 keys instead of one"):
        _ = SiteFolder(tmp_path).key
