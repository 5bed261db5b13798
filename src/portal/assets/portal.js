/* What the pages do better with JavaScript; none of them needs it. */
"use strict";

/** Offers to copy what is shown once. */
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
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(field.textContent.trim());
      button.textContent = "Copied";
    });
    field.after(button);
  }
}

/** A destructive button stays off until what it asks for has been typed; the service checks it all the same. */
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

/** Times in the reader's own zone; the UTC text stays as the title. */
function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const date = new Date(time.dateTime);
    if (!Number.isNaN(date.getTime())) {
      time.title = time.textContent;
      time.textContent = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    }
  }
}

function enhance(root) {
  offerCopying(root);
  watchConfirmations(root);
  localTimes(root);
}

document.addEventListener("DOMContentLoaded", () => enhance(document));
document.addEventListener("htmx:afterSwap", () => enhance(document));
