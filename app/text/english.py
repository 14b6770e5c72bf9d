"""The English words that the rules for answers go by: lower case, with straight apostrophes."""

from __future__ import annotations

__all__ = [
    "ADVERBS",
    "BREAKING",
    "CLOSED_COMPOUNDS",
    "CONTRACTIONS",
    "DANGLING",
    "DEMONSTRATIVE_VERBS",
    "DETERMINERS",
    "FINITE",
    "FOREIGN",
    "HOSTS",
    "LINKS",
    "LOWER_NAMES",
    "MODALS",
    "NEGATIONS",
    "NOUNS_IN_S",
    "PEOPLE",
    "POINTERS",
    "POSSESSIVES",
    "PREPOSITIONS",
    "SUBJECTS",
    "folded",
]


def folded(word: str) -> str:
    """Give *word* as the tables spell it."""
    return word.lower().replace("’", "'")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


ADVERBS = _set("perhaps maybe probably possibly")
SUBJECTS = _set("i we he she they")
POINTERS = _set("you it this that these those there")
POSSESSIVES = _set("my your his her its our their")
DETERMINERS = _set("the a an") | POSSESSIVES

_BE = _set("am is are was were be been being")
_HAVE = _set("have has had having")
_DO = _set("do does did")
MODALS = _set("can could will would shall should may might must")
_NOT = _set(
    "isn't aren't wasn't weren't haven't hasn't hadn't don't doesn't didn't can't cannot couldn't won't wouldn't "
    "shan't shouldn't mightn't mustn't"
)
FINITE = _set("am is are was were have has had do does did") | MODALS | _NOT
"""Auxiliaries and forms of be that carry a sentence."""

CONTRACTIONS = _set(
    "i'm i've i'll i'd we're we've we'll we'd he's he'll he'd she's she'll she'd they're they've they'll they'd "
    "you're you've you'll you'd it's it'll it'd that's that'll that'd there's there'll there'd"
)
"""Pronouns that bring their auxiliary along."""

HOSTS = _BE | _HAVE | _DO | MODALS | CONTRACTIONS | _set("here's who's what's where's")
"""Words after which an adverb of doubt may go."""

NEGATIONS = (
    _set("not no never none nobody nothing hardly nowhere neither nor barely scarcely rarely seldom no-one without")
    | _NOT
)
BREAKING = _set("and or but nor yet then than")
"""Words that would stand alone if the adverb before them went: "possibly and certainly"."""

PREPOSITIONS = _set(
    "of to in on at for from by with without about into onto over under after before during between against through "
    "across within until till per via near off since upon toward towards than as"
)
LINKS = PREPOSITIONS | _set(
    "because when while if unless where whereas although though that which who whose whom whether how why and or "
    "more less most least rather also still already even prior subsequent due"
)
"""Words that may follow directly where an aside between commas stood."""

DANGLING = _set(
    "a an the of to in on at for with by from and or but nor that which who whose whom what when where why how if "
    "because as than so is are was were be been will would can could should may might must not my your his her its our "
    "their this these those i we you he she they it about into like while although though"
)
"""Words that end no sentence: the next line goes on."""

DEMONSTRATIVE_VERBS = _set(
    "makes works seems looks sounds means helps depends explains covers answers solves fixes goes does has includes "
    "comes gives takes leads requires needs allows causes feels happens matters says shows tells suggests suffices "
    "changes breaks fails runs uses utilizes gets obtains starts commences ends terminates buys purchases"
)
"""Verbs in -s that "that" is the subject of; any other word in -s may be its plural noun ("that dogs")."""

NOUNS_IN_S = _set(
    "as its us yes his hers ours yours theirs across besides towards less unless whereas series news species lens gas "
    "bias alias atlas canvas pandas kubernetes always sometimes perhaps maths mathematics physics economics politics "
    "means afterwards nowadays upwards downwards"
)
"""Words in -s that are no verbs."""

LOWER_NAMES = _set(
    "npm npx pip git curl sudo bash grep sed awk vim nano ssh scp ls cd kubectl docker cargo rustc gcc clang cmake "
    "make node deno bun yarn pnpm python ruby perl java javac psql mysql sqlite redis nginx systemctl apt brew tmux "
    "zsh "
    "pytest ruff mypy numpy pandas tar zip rsync wget telnet ping chmod chown cron jq ffmpeg"
)
"""Names that are written in lower case at the start of a sentence, too."""

FOREIGN = _set(
    "il lo la le les de des du une uno una et que qui el los las der das und est nous vous elle elles ils je tu avec "
    "sur dans ce cette di della che si gli dei dos das em na para nao mais ne pas leur notre votre se ses sa uma ou"
)
"""Words of other languages beside which a word like "commence" is theirs."""

PEOPLE = _set(
    "me you him her us them someone somebody anyone anybody everyone everybody people person employee employees worker "
    "workers staff member members contractor contractors colleague colleagues he she i we they who"
)

CLOSED_COMPOUNDS = _set(
    "order orders price prices pricing date dates history histories agreement agreements power decision decisions "
    "request requests amount amounts invoice invoices flow flows page pages button confirmation intent intention "
    "behavior behaviour behaviors funnel options option terms requisition requisitions value volume volumes frequency "
    "process cost costs receipt receipts ledger contract contracts event experience list lists data cycle journey card "
    "program channel trends rate rates activity point points link record records detail details information number "
    "numbers form forms department manager team type types"
)
"""Words before which "purchase" is a noun."""
