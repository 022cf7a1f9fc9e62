"""The hint that a run has news: never missed between a look and a wait, and nothing left behind."""

import asyncio

from pagegate.actors.agents.feed import RunFeed


async def test_news_between_a_look_and_a_wait_is_not_missed() -> None:
    feed = RunFeed()
    with feed.subscribe(1) as stream:
        stream.quiet()
        feed.publish(1)
        assert await stream.news(60)


async def test_news_of_another_run_wakes_nobody() -> None:
    feed = RunFeed()
    with feed.subscribe(1) as stream:
        feed.publish(2)
        assert not await stream.news(0.001)


async def test_a_close_wakes_every_stream_and_stays() -> None:
    feed = RunFeed()
    with feed.subscribe(1) as one, feed.subscribe(2) as two:
        waits = asyncio.gather(one.news(60), two.news(60))
        feed.close()
        assert await waits == [True, True]
        one.quiet()
        assert await one.news(60)


async def test_a_stream_that_ended_is_forgotten() -> None:
    feed = RunFeed()
    with feed.subscribe(1), feed.subscribe(1):
        assert feed.streams == 2
    assert feed.streams == 0
    feed.publish(1)
