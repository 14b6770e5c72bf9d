"""hedge_reducer: each sentence of its rules, both ways."""

from __future__ import annotations

import pytest

from app.text.transducer import transform

HEDGES = ["hedge_reducer"]


def check(text: str, expected: str) -> None:
    """Compare, and see that a second pass finds nothing more."""
    assert expected == transform(text, HEDGES)
    assert expected == transform(expected, HEDGES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I think it works.", "It works."),
        ("I think that it works.", "It works."),
        ("I believe we can go.", "We can go."),
        ("I believe that they have left.", "They have left."),
        ("I would say they are friends.", "They are friends."),
        ("I would say that she knows.", "She knows."),
        ("It seems like he was late.", "He was late."),
        ("It seems that we need time.", "We need time."),
        ("It appears that I was wrong.", "I was wrong."),
        ("In my opinion, we should wait.", "We should wait."),
        ("In my opinion we should wait.", "We should wait."),
        ("From my perspective, they are right.", "They are right."),
        ("I think I know.", "I know."),
        ("I think we're done.", "We're done."),
        ("I think they’ll come.", "They’ll come."),
    ],
)
def test_an_opening_phrase_goes_before_a_pronoun_and_a_word(text: str, expected: str) -> None:
    """I, we, he, she and they begin a clause."""
    check(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I think you are right.", "You are right."),
        ("I think it isn't ready.", "It isn't ready."),
        ("I think this works.", "This works."),
        ("I think that works.", "That works."),
        ("I think that is why.", "That is why."),
        ("I think that that is why.", "That is why."),
        ("I think these tests pass.", "These tests pass."),
        ("I think there is a bug.", "There is a bug."),
        ("I think there's a bug.", "There's a bug."),
        ("I believe you are right.", "You are right."),
        ("I believe it is fine.", "It is fine."),
        ("It seems like it works.", "It works."),
        ("I would say it depends.", "It depends."),
        ("I think it’s fine.", "It’s fine."),
    ],
)
def test_an_opening_phrase_goes_before_a_pointer_and_a_verb(text: str, expected: str) -> None:
    """You, it, this, that, these, those and there need an auxiliary, or a word in -s."""
    check(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I think the server is down.", "The server is down."),
        ("I think that the API can fail.", "The API can fail."),
        ("I believe the story is true.", "The story is true."),
        ("It seems like a bug is hiding.", "A bug is hiding."),
        ("It appears that your code has a bug.", "Your code has a bug."),
        ("I think my team won't come.", "My team won't come."),
        ("I think the `is` operator should do.", "The `is` operator should do."),
        ("I think the server (old) is down.", "The server (old) is down."),
        ("I think a lot of people are here.", "A lot of people are here."),
        ("I think the same is true here.", "The same is true here."),
        ("It seems like the server, in my opinion, is slow.", "The server is slow."),
        ("I think the thing that matters is speed.", "The thing that matters is speed."),
    ],
)
def test_an_opening_phrase_goes_before_a_subject_with_its_verb(text: str, expected: str) -> None:
    """The, a, an and possessives need an auxiliary or a form of be before the sentence ends."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    [
        "I think so.",
        "I think not.",
        "I think about it a lot.",
        "I think of it as a bug.",
        "I think it over.",
        "I think this through.",
        "I think the server crashed.",
        "I think Redis is best.",
        "I think `foo` is broken.",
        "I think **we** should go.",
        'I think "we" is wrong.',
        "I think the world of you.",
        "I think a lot and am tired.",
        "I think the same.",
        "I think that dogs are nice.",
        "I think that users can do it.",
        "I think we, as a team, should go.",
        "I think, though, that it works.",
        "I think we.",
        "I think it",
        "I think",
        "I thinking we are.",
        "I think-we are.",
        "I think  we should go.",
        "I believe you.",
        "I believe her.",
        "I believe her story.",
        "I believe in this.",
        "I believe it works.",
        "I believe that it works.",
        "I believe the man.",
        "I believe the man who was here.",
        "I believe the rumours you have heard.",
        "I would say hello.",
        "I would say a few words that are kind.",
        "I would say yes.",
        "It seems like a bug.",
        "It seems like a bug that was fixed.",
        "It seems like a bug, and it is annoying.",
        "It seems like a bug: it is odd.",
        "It seems like a can of worms.",
        "It seems like the way to do it.",
        "It seems like the right thing to do.",
        "It seems like the book you are reading.",
        "It seems like those errors.",
        "It seems like you guys.",
        "It seems like everyone is here.",
        "It seems to work.",
        "It seems that way.",
        "It appears that way.",
        "It appears to be fine.",
        "In my opinion, yes.",
        "In my opinion piece, I wrote about it.",
        "In my opinions we are one.",
        "From my perspective as a user, it is fine.",
        "I don't think so.",
        "I don't think it works.",
        "What do you think?",
        "That is what I think",
        "He thinks I think it works.",
        "If I think it works, it works.",
    ],
)
def test_an_opening_phrase_stays_before_anything_else(text: str) -> None:
    """Nouns, objects, fragments, code, emphasis and other clauses keep it."""
    check(text, text)


@pytest.mark.parametrize(
    "text",
    ["I think, we should go.", "I believe, it is so.", "It seems that, we are late.", "I think that, we are late."],
)
def test_a_comma_keeps_the_phrase(text: str) -> None:
    """All but "In my opinion," and "From my perspective,"."""
    check(text, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes. I think it works.", "Yes. It works."),
        ("Really? I think it works.", "Really? It works."),
        ("Stop! Perhaps it works.", "Stop! It works."),
        ("Well... I think it works.", "Well... It works."),
        ("Yes.  I think it works.", "Yes.  It works."),
        ("- I think it works", "- It works"),
        ("* Maybe the server is down.", "* The server is down."),
        ("+ I think it works", "+ It works"),
        ("• I think it works", "• It works"),
        ("1. I think we can.", "1. We can."),
        ("12) Perhaps it rains.", "12) It rains."),
        ("  - I think it works", "  - It works"),
        ("- [ ] I think it works", "- [ ] It works"),
        ("- [x] I think it works", "- [x] It works"),
        ("Hello.\nI think it works.\n\nMaybe it rains.", "Hello.\nIt works.\n\nIt rains."),
        ("Hello.\r\nI think it works.\r\n", "Hello.\r\nIt works.\r\n"),
        ("  I think it works.", "  It works."),
        ("Sure, I think it works.", "Sure, it works."),
        ("Of course, I think we can.", "Of course, we can."),
        ("Great question! I think it works.", "Great question! It works."),
        ("Well, I think it works.", "Well, it works."),
        ("So, perhaps we should go.", "So, we should go."),
        ("But, I think they will stay.", "But, they will stay."),
        ("However, I think we should go.", "However, we should go."),
        ("However, in my opinion, we should go.", "However, we should go."),
        ("Also, it seems like the plan is good.", "Also, the plan is good."),
        ("Well, sure, I think it works.", "Well, sure, it works."),
        ("Done. Still, I think we can.", "Done. Still, we can."),
    ],
)
def test_where_a_sentence_starts(text: str, expected: str) -> None:
    """A line's prose, after . ! ? and space, after an opener and its comma."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    [
        "Yesterday, I think we went.",
        "After that, perhaps it rains.",
        "He said: I think we can.",
        "It works; I think we can.",
        "But I think we should go.",
        "It is so, I think we can go.",
        "See e.g. I think we can.",
        "# I think it works",
        "**I think it works**",
        "(I think it works.)",
        "That is something that\nI think the team is doing.",
        "This line is a good deal longer than sixty characters and it goes on in\nI think the next one.",
    ],
)
def test_where_no_sentence_starts(text: str) -> None:
    """Other commas, colons, headings, emphasis, abbreviations, and lines that go on in the next."""
    check(text, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The server, I think, is down.", "The server is down."),
        ("The answer is, I believe, 42.", "The answer is 42."),
        ("We should, in my opinion, wait.", "We should wait."),
        ("The plan, in my opinion, needs work.", "The plan needs work."),
        ("Python, I would say, works well.", "Python works well."),
        ("It works, from my perspective, because it is small.", "It works because it is small."),
        ("It is, I think, `foo`.", "It is `foo`."),
        ("We, I think, agree.", "We agree."),
        ("He said that, in my opinion, it works.", "He said that it works."),
        ("The bridge (I think) is closed.", "The bridge is closed."),
        ("This (in my opinion) works.", "This works."),
        ("It is (I believe) the best.", "It is the best."),
    ],
)
def test_an_aside_goes_with_its_commas_or_parentheses(text: str, expected: str) -> None:
    """Where what stands around it belongs together."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    [
        "It works, I think.",
        "It works (I think).",
        "Alice, I think, Bob and Carol came.",
        "Apples, I think, oranges and pears.",
        "Apples, I think, oranges, and pears.",
        "On Monday, I think, users came.",
        "Of the 100, I think, 20 came.",
        "I came, I think, therefore I am.",
        "It is probably, I think, late.",
        "It works, I think",
        "It works, I think, ",
        "It works,I think, because",
        "The 5 (I think) 6 rule.",
        "It, I think that, works.",
        '"It, I think, is late."',
    ],
)
def test_an_aside_stays_where_it_holds_parts_apart(text: str) -> None:
    """Lists, numbers, ends of sentences, and whatever is no aside."""
    check(text, text)


@pytest.mark.parametrize("adverb", ["perhaps", "maybe", "probably", "possibly"])
@pytest.mark.parametrize("host", ["is", "was", "has", "should", "might", "will", "can", "does"])
def test_an_adverb_goes_after_a_form_of_be_have_do_or_a_modal(adverb: str, host: str) -> None:
    """Directly after it, before a space and a word."""
    check(f"The plan {host} {adverb} done.", f"The plan {host} done.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's probably fine.", "It's fine."),
        ("They’re possibly late.", "They’re late."),
        ("I'd probably use Redis.", "I'd use Redis."),
        ("I would probably use Redis.", "I would use Redis."),
        ("What is perhaps the best way?", "What is the best way?"),
        ("It has probably been done.", "It has been done."),
        ("The meeting is probably at 3.", "The meeting is at 3."),
        ("That is probably why it failed.", "That is why it failed."),
        ("It will perhaps possibly rain.", "It will rain."),
    ],
)
def test_more_adverbs_that_go(text: str, expected: str) -> None:
    """Contractions, questions, and several in a row."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    [
        "It probably works.",
        "You perhaps know.",
        "It is probably",
        "It is probably.",
        "It is perhaps, late.",
        "It is, perhaps, late.",
        "It is probably 3 hours.",
        "It is probably `foo`.",
        "It is probably main.py.",
        'It is probably "late".',
        "It is probably\nlate.",
        "It is probable that we go.",
        "It is maybes and ifs.",
        "It is possibly or probably late.",
        "It is possibly and certainly late.",
        "It is quite possibly the best.",
        "It is very probably late.",
        "It is just maybe true.",
        "This/is probably/late.",
    ],
)
def test_an_adverb_stays_anywhere_else(text: str) -> None:
    """Before punctuation, numbers, code, line ends, conjunctions; after other words."""
    check(text, text)


@pytest.mark.parametrize(
    "negation", ["not", "no", "never", "none", "nobody", "nothing", "hardly", "isn't", "can’t", "neither"]
)
@pytest.mark.parametrize("adverb", ["perhaps", "probably"])
def test_an_adverb_stays_before_a_negation(adverb: str, negation: str) -> None:
    """What is doubted there is the opposite."""
    check(f"It is {adverb} {negation} late.", f"It is {adverb} {negation} late.")


@pytest.mark.parametrize("text", ["It isn't probably late.", "You can't possibly mean it.", "It cannot possibly be."])
def test_an_adverb_stays_after_a_negation(text: str) -> None:
    """Not only before one."""
    check(text, text)


@pytest.mark.parametrize(
    "text",
    [
        "It is perhaps red and perhaps blue.",
        "Maybe it works, maybe it does not.",
        "Perhaps we should go, or perhaps not.",
        "It is maybe late, perhaps too late.",
        "Maybe not, but it is perhaps fine.",
        "It will probably rain, maybe snow.",
    ],
)
def test_adverbs_that_weigh_against_each_other_stay(text: str) -> None:
    """A second maybe or perhaps in the sentence keeps both."""
    check(text, text)


def test_a_second_one_in_another_sentence_does_not_count() -> None:
    """The sentence is what counts."""
    check("Perhaps it rains. Maybe not.", "It rains. Maybe not.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Perhaps it rains.", "It rains."),
        ("Maybe I will come.", "I will come."),
        ("Possibly they are late.", "They are late."),
        ("Probably the best way is to wait.", "The best way is to wait."),
        ("Maybe this helps.", "This helps."),
        ("Maybe that helps.", "That helps."),
        ("Maybe it's time.", "It's time."),
    ],
)
def test_an_adverb_goes_at_a_sentence_start(text: str, expected: str) -> None:
    """Under the same test as an opening phrase."""
    check(text, expected)


@pytest.mark.parametrize(
    "text",
    [
        "Maybe later.",
        "Maybe not.",
        "Perhaps nobody is here.",
        "Perhaps, we should go.",
        "Perhaps more importantly, it works.",
        "Maybe if we wait.",
        "Maybe a restart helps.",
        "Maybe those classes.",
        "Probably the best.",
        "Possibly.",
        "maybe",
        "- maybe\n- apples",
    ],
)
def test_an_adverb_stays_before_a_fragment(text: str) -> None:
    """Where no clause of its own follows."""
    check(text, text)


@pytest.mark.parametrize(
    "text",
    [
        "I think you should go, don't you?",
        "I think it works, right?",
        "Perhaps it rains?",
        "Maybe we should ask?",
        "It seems like you are new here?",
    ],
)
def test_what_makes_a_question_stays(text: str) -> None:
    """Without it the sentence would be no question, or a broken one."""
    check(text, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I think perhaps it works.", "It works."),
        ("I think maybe we should probably go.", "We should go."),
        ("Perhaps I think it works.", "It works."),
        ("In my opinion, I think you might perhaps want more.", "You might want more."),
        ("I think it seems like the model is wrong.", "The model is wrong."),
        ("I think that probably the data set is small.", "The data set is small."),
        ("I think maybe so.", "I think maybe so."),
        ("I think perhaps not.", "I think perhaps not."),
        ("I would probably say we should go.", "I would probably say we should go."),
    ],
)
def test_hedges_that_would_go_themselves_are_skipped(text: str, expected: str) -> None:
    """Looking ahead goes past them; one that stays keeps those before it."""
    check(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i think we should go", "we should go"),
        ("I THINK WE SHOULD GO", "WE SHOULD GO"),
        ("perhaps it rains.", "it rains."),
        ("PERHAPS it rains.", "It rains."),
        ("Perhaps the iPhone is good.", "The iPhone is good."),
        ("Perhaps They are here.", "They are here."),
        ("It is Probably The Best.", "It is The Best."),
    ],
)
def test_the_next_word_takes_the_case(text: str, expected: str) -> None:
    """Of what was removed, at a sentence start."""
    check(text, expected)


LONG = "big and old and slow and heavy " * 6


def test_what_is_undecided_within_the_look_ahead_stays() -> None:
    """At most 160 characters are looked at, so a verb behind them does not count."""
    check(f"I think the {LONG}server is down.", f"I think the {LONG}server is down.")
    check(f"I think the {LONG[:90]}server is down.", f"The {LONG[:90]}server is down.")


def test_no_decision_looks_past_its_line() -> None:
    """A verb in the next line does not count."""
    check("I think the server\nis down.", "I think the server\nis down.")
