"""The server's side of the roster: who may connect."""

from collections.abc import Collection, Sequence

from fedsparse.errors import OptionError
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.roster import Roster, SiteCard, read_roster
from fedsparse.files import ready_folder, write_atomically


def enrolled(folder: ServerFolder) -> Roster:
    """The roster in the server's folder; an empty one if there is none yet.

    Examples
    --------
    >>> from pathlib import Path
    >>> enrolled(ServerFolder(Path("nowhere"))).names
    ()
    """
    return read_roster(folder.roster) if folder.roster.exists() else Roster()


def enrol(
    folder: ServerFolder,
    cards: Sequence[SiteCard] = (),
    *,
    remove: Collection[str] = (),
    replace: Collection[str] = (),
) -> Roster:
    """Change the roster, all of it or nothing, and make ready what sites are handed.

    Parameters
    ----------
    folder
        The server's.
    cards
        Of sites to add. One that is there with the same keys stays.
    remove
        Names of sites that may not connect any more.
    replace
        Names of sites whose keys may differ from those in the roster.
    """
    folder.check()
    before = enrolled(folder)
    for name in remove:
        _ = before[name]
    kept = {card.name: card for card in before.cards if card.name not in remove}
    for card in cards:
        known = kept.get(card.name)
        if known is not None and known != card and card.name not in replace:
            raise OptionError(
                f"the card of {card.name} has another key than the roster: {card.fingerprint} "
                f"instead of {known.fingerprint}; ask its administrator by telephone, and if the "
                f"key is meant to be new give --replace {card.name}"
            )
    fresh = {card.name: card for card in cards}
    if len(fresh) < len(cards):
        Roster.of(cards, "the list of cards")  # says which name is there twice
    roster = Roster.of([*(kept | fresh).values()])
    write_atomically(folder.roster, roster.to_bytes())
    ready_folder(folder.for_sites)
    for path in (folder.authority, folder.roster):
        write_atomically(folder.for_sites / path.name, path.read_bytes())
    return roster
