/** Improves the pages with JavaScript; all pages also work without it. */

declare global {
  interface Window {
    /** ../assets/htmx.min.js */
    readonly htmx: {
      ajax(method: "GET", url: string, options: { target: string; select: string; swap: string }): unknown;
    };
  }
}

/** Adds a Copy button to each value that is shown only once. */
function offerCopying(): void {
  for (const field of document.querySelectorAll<HTMLElement>("[data-copy]")) {
    // Browsers leave the clipboard out on insecure pages, whatever its type says.
    if (field.dataset["copy"] === "ready" || !("clipboard" in navigator)) {
      continue;
    }
    field.dataset["copy"] = "ready";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      void navigator.clipboard.writeText((field.textContent ?? "").trim()).then(() => {
        button.textContent = "Copied";
      });
    });
    field.after(button);
  }
}

/** Disables a destructive button until the confirmation is typed; the service checks it too. */
function watchConfirmations(): void {
  for (const input of document.querySelectorAll<HTMLInputElement>("input[data-confirm]")) {
    const button = input.form?.querySelector("button");
    const check = (): void => {
      if (button) {
        button.disabled = input.value.trim() !== input.dataset["confirm"];
      }
    };
    input.addEventListener("input", check);
    check();
  }
}

/** Formats a time in the reader's time zone, with the year only if it is another one. */
function localText(date: Date): string {
  const year = date.getFullYear() === new Date().getFullYear() ? {} : ({ year: "numeric" } as const);
  return date.toLocaleString(undefined, {
    ...year,
    month: "short",
    day: "numeric",
    hour: "numeric",
    minute: "2-digit",
    second: "2-digit",
  });
}

/** Shows times in the reader's time zone; the UTC text becomes the title. */
function localTimes(): void {
  for (const time of document.querySelectorAll<HTMLTimeElement>("time[datetime]:not([title])")) {
    const date = new Date(time.dateTime);
    if (!Number.isNaN(date.getTime())) {
      time.title = time.textContent ?? "";
      time.textContent = localText(date);
    }
  }
  for (const element of document.querySelectorAll<HTMLElement | SVGElement>("[data-hour]")) {
    const date = new Date(element.dataset["hour"] ?? "");
    const clock = date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
    element.textContent = (element.textContent ?? "").replace(/^\d\d:\d\d(?: UTC)?/, clock);
    delete element.dataset["hour"];
  }
}

/** Returns the value of a `datetime-local` field for a time. */
function fieldValue(date: Date): string {
  const shifted = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 16);
}

/** Shows the fields for times in the reader's time zone, like the rows. Their forms still send UTC. */
function localFields(): void {
  for (const field of document.querySelectorAll<HTMLInputElement>('input[type="datetime-local"][name]')) {
    const sent = document.createElement("input");
    sent.type = "hidden";
    sent.name = field.name;
    sent.value = field.value;
    field.removeAttribute("name");
    field.after(sent);
    if (field.value !== "") {
      field.value = fieldValue(new Date(`${field.value}Z`));
    }
    field.addEventListener("input", () => {
      sent.value = field.value === "" ? "" : new Date(field.value).toISOString().slice(0, 16);
    });
  }
  for (const zone of document.querySelectorAll("[data-zone]")) {
    zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
  }
}

/** Formats a duration with its largest units, for instance "2 min 5 s"; empty for less than a second. */
function durationText(milliseconds: number, units: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const all: readonly (readonly [number, string])[] = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor((seconds % 86400) / 3600), "h"],
    [Math.floor((seconds % 3600) / 60), "min"],
    [seconds % 60, "s"],
  ];
  return all
    .filter(([count]) => count > 0)
    .slice(0, units)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

/** Returns the time of a place in Unix milliseconds: its own, or that of the element before it. */
function timeOf(place: HTMLElement, own: string | undefined): number {
  return Date.parse(own || (place.previousElementSibling?.getAttribute("datetime") ?? ""));
}

/** Updates the texts "in 2 min 5 s" and "3 min ago". */
function countTime(): void {
  for (const place of document.querySelectorAll<HTMLElement>("[data-countdown]")) {
    const left = durationText(timeOf(place, place.dataset["countdown"]) - Date.now(), 2);
    place.textContent = left === "" ? "now" : `in ${left}`;
  }
  for (const place of document.querySelectorAll<HTMLElement>("[data-since]")) {
    const passed = durationText(Date.now() - timeOf(place, place.dataset["since"]), 1);
    place.textContent = passed === "" ? "now" : `${passed} ago`;
  }
}

/** Adds a checkbox that selects all rows of a list. */
function offerChoosingAll(): void {
  for (const form of document.querySelectorAll("form")) {
    const boxes = [...form.querySelectorAll<HTMLInputElement>("input.choose")];
    const [first] = boxes;
    if (first === undefined || boxes.length < 2 || form.dataset["choosing"] === "ready") {
      continue;
    }
    form.dataset["choosing"] = "ready";
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
    first.closest(".scroll")?.before(label);
  }
}

/** Filters the tree of event types by the text above it. */
function findTypes(): void {
  for (const place of document.querySelectorAll<HTMLElement>("[data-find][hidden]")) {
    place.hidden = false;
    const input = place.querySelector("input");
    const groups = [...(place.nextElementSibling?.querySelectorAll("details") ?? [])];
    input?.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      for (const group of groups) {
        for (const item of group.querySelectorAll("li")) {
          item.hidden = !(item.textContent ?? "").toLowerCase().includes(wanted);
        }
        group.hidden = group.querySelector("li:not([hidden])") === null;
        group.open = !group.hidden && (wanted !== "" || group.open);
      }
    });
    // Enter would submit the form.
    input?.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
      }
    });
  }
}

const LOOK_AGAIN_MS = 2000;

/** Reloads a list when the service reports a change, at most every two seconds. */
function followChanges(): void {
  const list = document.querySelector<HTMLElement>("[data-live]");
  if (!list) {
    return;
  }
  const stream = new EventSource(list.dataset["live"] ?? "");
  let waiting = false;
  const mark = document.querySelector<HTMLElement>("[data-live-mark]");
  const show = (live: boolean): void => {
    if (mark) {
      mark.hidden = !live;
    }
  };
  stream.addEventListener("error", () => show(false));
  const lookAgain = (): void => {
    const target = `#${list.id}`;
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

function enhance(): void {
  offerCopying();
  watchConfirmations();
  localFields();
  localTimes();
  offerChoosingAll();
  findTypes();
  countTime();
}

document.addEventListener("DOMContentLoaded", () => {
  enhance();
  setInterval(countTime, 1000);
  followChanges();
});
document.addEventListener("htmx:afterSwap", enhance);
