// Runs in every document before the page's own scripts, in the page's world, and makes two runs of a page the same:
// one clock, one stream of random numbers, and frames and timers that start together once the page is looked at.
//
// Until the `release` event (sent by the Renderer after the load) the clock stands at `startMs`, and timers and frames
// wait: how long the network took must not show in a picture. From then on the browser's virtual time moves the native
// clock, beginning at `startMs` exactly, and all of it follows. Frames are made from timers because the browser's own
// follow real time even while time is virtual. A loop that waits for the clock inside one task would wait for ever, so
// asking very often moves the clock a little.
//
// The page may undo all this; then its picture may differ between runs, and nothing else.
(config) => {
  "use strict";
  const { startMs, spanMs, seed, releaseEvent, sealEvent } = config;
  const FRAME_MS = 16;
  const ASKED_OFTEN = 500;
  const CREEP_MS = 0.02;

  const NativeDate = Date;
  const nativeNow = Date.now;
  const native = {
    setTimeout: window.setTimeout.bind(window),
    clearTimeout: window.clearTimeout.bind(window),
    setInterval: window.setInterval.bind(window),
    clearInterval: window.clearInterval.bind(window),
  };
  const reportError = window.reportError.bind(window);

  // -- the clock ----------------------------------------------------------------------------------------------------

  const isTop = window === window.top;
  let released = !isTop; // frames inside the page cannot be told; their timers simply run
  let releasedAt = nativeNow();
  let last = -1;
  let asked = 0;
  let crept = 0;

  const sinceStart = () => {
    const now = nativeNow();
    const virtual = now >= startMs && now < startMs + spanMs;
    const reached = virtual ? now - startMs : released ? now - releasedAt : 0;
    if (reached > last) {
      last = reached;
      asked = 0;
    } else if (++asked > ASKED_OFTEN) {
      crept += CREEP_MS;
    }
    return last + crept;
  };
  const now = () => startMs + Math.floor(sinceStart());

  window.Date = new Proxy(NativeDate, {
    construct: (target, args, newTarget) => Reflect.construct(target, args.length ? args : [now()], newTarget),
    apply: () => new NativeDate(now()).toString(),
  });
  NativeDate.now = now;
  NativeDate.prototype.constructor = window.Date;
  Performance.prototype.now = () => 100 + sinceStart();
  const formatDate = Object.getOwnPropertyDescriptor(Intl.DateTimeFormat.prototype, "format").get;
  Object.defineProperty(Intl.DateTimeFormat.prototype, "format", {
    configurable: true,
    get() {
      const format = formatDate.call(this);
      return (date) => format(date === undefined ? now() : date);
    },
  });

  // -- chance -------------------------------------------------------------------------------------------------------

  let state = seed >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  Math.random = random;
  if (window.Crypto) {
    Crypto.prototype.getRandomValues = (array) => {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(random() * 256);
      return array;
    };
    Crypto.prototype.randomUUID = () => {
      const digits = Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16));
      digits[12] = "4";
      digits[16] = "89ab"[Math.floor(random() * 4)];
      const hex = digits.join("");
      return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
    };
  }

  // -- shadow trees are open, so that what is animated in them can be stilled ----------------------------------------

  const attachShadow = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (init) {
    return attachShadow.call(this, { ...init, mode: "open" });
  };

  // -- timers: ids are ours, so that one made before the release can be cleared after it -----------------------------

  const timers = new Map(); // id → {arm, cancel}; armed ones have a native id
  let lastId = 0;

  const timer = (setNative, clearNative, repeats) => (callback, delay, ...args) => {
    const id = ++lastId;
    const run = typeof callback === "function" ? callback : () => (0, eval)(String(callback));
    const entry = {
      handle: undefined,
      arm() {
        entry.handle = setNative(() => {
          if (!repeats) timers.delete(id);
          run.apply(window, args);
        }, delay);
      },
      cancel() {
        timers.delete(id);
        if (entry.handle !== undefined) clearNative(entry.handle);
      },
    };
    timers.set(id, entry);
    if (released) entry.arm();
    return id;
  };
  const clear = (id) => {
    const entry = timers.get(Number(id));
    if (entry) entry.cancel();
  };
  window.setTimeout = timer(native.setTimeout, native.clearTimeout, false);
  window.setInterval = timer(native.setInterval, native.clearInterval, true);
  window.clearTimeout = clear;
  window.clearInterval = clear;

  // -- tasks without a delay: a page that posts them to itself for ever would stop virtual time and starve the picture;
  // past a number that no honest page reaches each takes a millisecond of the page's time -------------------------------

  const POSTED_MAX = 2000;
  let posted = 0;
  const slowed = (post) =>
    function (...args) {
      if (++posted <= POSTED_MAX) return post.apply(this, args);
      native.setTimeout(() => post.apply(this, args), 1);
    };
  MessagePort.prototype.postMessage = slowed(MessagePort.prototype.postMessage);
  window.postMessage = slowed(window.postMessage);
  if (window.Scheduler) {
    const postTask = Scheduler.prototype.postTask;
    Scheduler.prototype.postTask = function (callback, options) {
      const late = ++posted > POSTED_MAX ? { ...options, delay: Math.max(1, (options && options.delay) || 0) } : options;
      return postTask.call(this, callback, late);
    };
  }

  // -- frames -------------------------------------------------------------------------------------------------------

  let frames = new Map();
  let lastFrame = 0;
  let frameDue = false;
  let painting = null; // the ids of the frame that is being painted, without those cancelled meanwhile

  const nextFrame = () => {
    if (frameDue || !released || frames.size === 0) return;
    frameDue = true;
    const passed = sinceStart();
    native.setTimeout(paint, FRAME_MS - (Math.floor(passed) % FRAME_MS));
  };
  const paint = () => {
    frameDue = false;
    const due = frames;
    frames = new Map();
    painting = new Set(due.keys());
    const time = performance.now();
    for (const [id, callback] of due) {
      if (!painting.has(id)) continue;
      try {
        callback.call(window, time);
      } catch (error) {
        reportError(error);
      }
    }
    painting = null;
    nextFrame();
  };
  window.requestAnimationFrame = (callback) => {
    if (typeof callback !== "function") throw new TypeError("requestAnimationFrame needs a function");
    frames.set(++lastFrame, callback);
    nextFrame();
    return lastFrame;
  };
  window.cancelAnimationFrame = (id) => {
    if (!frames.delete(Number(id)) && painting) painting.delete(Number(id));
  };

  // -- from outside -------------------------------------------------------------------------------------------------

  document.addEventListener(releaseEvent, (event) => {
    event.stopImmediatePropagation();
    if (released) return;
    releasedAt = nativeNow();
    released = true;
    for (const entry of [...timers.values()]) entry.arm();
    nextFrame();
  });
  let sealed = false; // a tall picture makes the browser resize for a moment, which the page must not hear
  document.addEventListener(sealEvent, () => (sealed = true));
  const hush = (event) => sealed && event.stopImmediatePropagation();
  window.addEventListener("resize", hush, true);
  if (window.visualViewport) window.visualViewport.addEventListener("resize", hush, true);
};
