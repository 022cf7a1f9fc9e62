// What the Renderer asks of the page while it settles and before its picture (R11). It runs in an isolated world at the
// start of every document and leaves one object, `pagegateSettle`, there. Timers and frames here are the browser's own.
// Each answer is a JSON string.
globalThis.pagegateSettle = (() => {
  "use strict";
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const task = () =>
    new Promise((done) => {
      const channel = new MessageChannel();
      channel.port1.onmessage = done;
      channel.port2.postMessage(0);
    });
  // Who observes sizes and intersections is told in a task after the frame; the first of ours is posted within it.
  const frames = async (count) => {
    for (let i = 0; i < count; i++) await frame();
    await task();
    await task();
  };
  const root = () => document.scrollingElement || document.documentElement;
  const everything = function* (node) {
    for (const element of node.querySelectorAll("*")) {
      yield element;
      if (element.shadowRoot) yield* everything(element.shadowRoot);
    }
  };

  let changes = 0; // of what can be seen; a page that counts in its title is at rest
  new MutationObserver((records) => {
    changes += records.filter((record) => !document.head || !document.head.contains(record.target)).length;
  }).observe(document, {
    subtree: true,
    childList: true,
    attributes: true,
    characterData: true,
  });

  const facts = () => {
    const images = [...document.images];
    return {
      ready: document.readyState,
      mounted: document.documentElement.dataset.pagegateMounted === "1",
      fonts: document.fonts.status,
      imagesPending: images.filter((image) => !image.complete && image.loading !== "lazy").length,
      changes,
      animations: document.getAnimations().length,
      width: root().scrollWidth,
      height: root().scrollHeight,
    };
  };
  const state = () => JSON.stringify(facts());

  const animations = () => {
    const found = new Set(document.getAnimations());
    for (const element of everything(document)) {
      if (element.shadowRoot) for (const each of element.shadowRoot.getAnimations()) found.add(each);
    }
    return [...found];
  };

  // Finite animations jump to their end, endless ones leave; those tied to scrolling or paused by the page stay.
  const stillAnimations = () => {
    let moved = 0;
    for (const animation of animations()) {
      if (animation.timeline !== document.timeline || animation.playState === "paused") continue;
      const end = animation.effect ? animation.effect.getComputedTiming().endTime : 0;
      try {
        if (end === Infinity) animation.cancel();
        else animation.finish();
        moved++;
      } catch {
        animation.cancel();
      }
    }
    return moved;
  };

  const stillVideo = async (video) => {
    video.autoplay = false;
    video.pause();
    if (video.readyState < 1 || (video.currentTime === 0 && !video.seeking)) return;
    const sought = new Promise((done) => video.addEventListener("seeked", done, { once: true }));
    video.currentTime = 0;
    await sought;
  };
  const stillVideos = () =>
    Promise.all([...everything(document)].filter((e) => e instanceof HTMLVideoElement).map(stillVideo));

  let caretHidden = false;
  const still = () => {
    if (!caretHidden) {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync("* { caret-color: transparent !important; }");
      document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
      caretHidden = true;
    }
    for (const element of everything(document)) {
      if (element instanceof SVGSVGElement && !element.ownerSVGElement) {
        element.pauseAnimations();
        element.setCurrentTime(0);
      }
    }
    stillVideos(); // that they got there is told by events, which stand still with time
    const moved = stillAnimations();
    return JSON.stringify({ ...facts(), moved });
  };

  // Down through the page once, so that what waits to be seen is seen, and back. A page that grows is followed until
  // `heightMax`.
  const scrollThrough = async (heightMax) => {
    const page = root();
    const behaviour = page.style.scrollBehavior;
    page.style.scrollBehavior = "auto";
    let height = page.scrollHeight;
    for (let y = 0; y < Math.min(page.scrollHeight, heightMax); y += window.innerHeight) {
      window.scrollTo(0, y);
      await frames(1);
      if (page.scrollHeight > height) await frames(1); // what grew must be seen to have left before it can come again
      height = page.scrollHeight;
    }
    window.scrollTo(0, 0);
    page.style.scrollBehavior = behaviour;
    await frames(1);
    return JSON.stringify({ height: page.scrollHeight });
  };

  // Before time is stopped: a frame is painted and its observers told, and videos stand at their beginning.
  const begin = async (videoMaxMs) => {
    const limit = new Promise((done) => setTimeout(done, videoMaxMs));
    if (document.querySelector("video")) await Promise.race([stillVideos(), limit]);
    await frames(1);
    return state();
  };
  const tell = (name) => {
    document.dispatchEvent(new Event(name));
    return state();
  };
  // While time stands still frames are painted, tasks are not run. A pending request keeps time still.
  const painted = async () => {
    await frame();
    return "{}";
  };
  const hold = (url) => {
    fetch(url).catch(() => {});
    return "{}";
  };

  return { state, begin, still, scrollThrough, tell, painted, hold };
})();
