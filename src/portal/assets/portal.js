/* Improves the pages with JavaScript; all pages also work without it. */
"use strict";

/** Adds a Copy button to each value that is shown only once. */
function offerCopying(root) {
  for (const field of root.querySelectorAll("[data-copy]")) {
    if (field.dataset.copy === "ready" || !navigator.clipboard) {
      continue;
    }
    field.dataset.copy = "ready";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      void navigator.clipboard.writeText(field.textContent.trim()).then(() => {
        button.textContent = "Copied";
      });
    });
    field.after(button);
  }
}

/** Disables a destructive button until the confirmation is typed; the service checks it too. */
function watchConfirmations(root) {
  for (const input of root.querySelectorAll("input[data-confirm]")) {
    const button = input.form.querySelector("button");
    const check = () => {
      button.disabled = input.value.trim() !== input.dataset.confirm;
    };
    input.addEventListener("input", check);
    check();
  }
}

/** Shows times in the reader's time zone; the UTC text becomes the title. */
function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const date = new Date(time.dateTime);
    if (!Number.isNaN(date.getTime())) {
      time.title = time.textContent;
      const timeStyle = time.dataset.seconds === undefined ? "short" : "medium";
      time.textContent = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle });
    }
  }
}

/** Formats a duration, for instance "in 2 min 5 s". */
function remaining(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  /** @type {[number, string][]} */
  const all = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor((seconds % 86400) / 3600), "h"],
    [Math.floor((seconds % 3600) / 60), "min"],
    [seconds % 60, "s"],
  ];
  const parts = all.filter(([count]) => count > 0);
  return parts.length === 0
    ? "now"
    : `in ${parts
        .slice(0, 2)
        .map(([count, unit]) => `${count} ${unit}`)
        .join(" ")}`;
}

function countDown() {
  /** @type {NodeListOf<HTMLElement>} */
  const places = document.querySelectorAll("[data-countdown]");
  for (const place of places) {
    place.textContent = remaining(Date.parse(place.dataset.countdown ?? "") - Date.now());
  }
}

/** Adds a checkbox that selects all rows of a list. */
function offerChoosingAll(root) {
  for (const form of root.querySelectorAll("form")) {
    const boxes = [...form.querySelectorAll("input.choose")];
    const [first] = boxes;
    if (boxes.length < 2 || form.dataset.choosing === "ready") {
      continue;
    }
    form.dataset.choosing = "ready";
    const label = document.createElement("label");
    const all = document.createElement("input");
    all.type = "checkbox";
    label.className = "all";
    label.append(all, ` All ${boxes.length} on this page`);
    all.addEventListener("change", () => {
      for (const box of boxes) {
        box.checked = all.checked;
      }
    });
    form.addEventListener("change", () => {
      all.checked = boxes.every((box) => box.checked);
    });
    first.closest(".scroll").before(label);
  }
}

const LOOK_AGAIN_MS = 2000;

/** Reloads a list when the service reports a change, at most every two seconds. */
function followChanges() {
  /** @type {HTMLElement | null} */
  const list = document.querySelector("[data-live]");
  if (!list || !window.EventSource) {
    return;
  }
  const stream = new EventSource(list.dataset.live ?? "");
  let waiting = false;
  /** @type {HTMLElement | null} */
  const mark = document.querySelector("[data-live-mark]");
  const show = (live) => {
    if (mark) {
      mark.hidden = !live;
    }
  };
  stream.addEventListener("error", () => show(false));
  const lookAgain = () => {
    const target = `#${list.id}`;
    // @ts-expect-error: htmx.min.js defines it, without types
    window.htmx.ajax("GET", location.href, { target, select: target, swap: "outerHTML" });
  };
  // Changes between loading the page and opening the stream were not reported.
  stream.addEventListener("ready", () => {
    show(true);
    lookAgain();
  });
  stream.addEventListener("delivery", () => {
    if (waiting) {
      return;
    }
    waiting = true;
    setTimeout(() => {
      waiting = false;
      lookAgain();
    }, LOOK_AGAIN_MS);
  });
  // Too many streams, or the session has ended: the page no longer updates until it is reloaded.
  stream.addEventListener("end", () => {
    show(false);
    stream.close();
  });
  window.addEventListener("pagehide", () => stream.close());
}

function enhance(root) {
  offerCopying(root);
  watchConfirmations(root);
  localTimes(root);
  offerChoosingAll(root);
  countDown();
}

document.addEventListener("DOMContentLoaded", () => {
  enhance(document);
  setInterval(countDown, 1000);
  followChanges();
});
document.addEventListener("htmx:afterSwap", () => enhance(document));
