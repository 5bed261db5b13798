/**
 * Denied targets of one kind in flat arrays: 16 bytes per slot, so that a million fit in 32 MiB, where a Map of objects
 * takes 200. A target is kept as a hash of 96 bits. Two targets with the same one would both be denied, which happens by
 * chance once in 10^22 lists of a million; nobody outside chooses the targets of valid tokens.
 */

const WORDS = 3;
const SLOTS_FIRST = 64;
/** Share of used slots at which the table doubles. */
const LOAD_MAX = 0.7;
/** Slots that one call of `prune` visits, so that it takes no longer than 10 ms. */
const PRUNED_AT_ONCE = 262_144;
/** `until` of a target that is denied for ever, in seconds of the caller's clock. */
const FOR_EVER = 0xffff_ffff;

/** The hash of the last target, in three words. Module state, because a check must allocate nothing. */
let first = 0;
let second = 0;
let third = 0;

/** Finalizer of MurmurHash3, public domain: each bit of the input changes half of the bits. */
function avalanche(word: number): number {
  let mixed = word ^ (word >>> 16);
  mixed = Math.imul(mixed, 0x85eb_ca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2_ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

function hashOf(target: string): void {
  let a = 0x9e37_79b9 ^ target.length;
  let b = 0x7f4a_7c15;
  let c = 0x94d0_49bb;
  for (let at = 0; at < target.length; at += 1) {
    const code = target.charCodeAt(at);
    a = Math.imul(a ^ code, 0x0100_0193);
    b = Math.imul(b + code, 0x5bd1_e995) ^ (b >>> 15);
    c = Math.imul(c ^ (code + at), 0xcc9e_2d51) + (c >>> 17);
  }
  first = avalanche(a ^ (b >>> 7));
  second = avalanche(b ^ first);
  third = avalanche(c ^ second);
}

/** Makes the target in a slot the hashed one. */
function readHash(keys: Uint32Array, slot: number): void {
  first = keys[WORDS * slot] ?? 0;
  second = keys[WORDS * slot + 1] ?? 0;
  third = keys[WORDS * slot + 2] ?? 0;
}

export class DeniedTargets {
  #keys = new Uint32Array(WORDS * SLOTS_FIRST);
  /** End of each denial, in whole seconds of the caller's clock; 0 for a free slot. */
  #until = new Uint32Array(SLOTS_FIRST);
  #size = 0;
  #cursor = 0;

  get size(): number {
    return this.#size;
  }

  /** Bytes of the arrays. */
  get bytes(): number {
    return this.#keys.byteLength + this.#until.byteLength;
  }

  has(target: string): boolean {
    if (this.#size === 0) {
      return false;
    }
    hashOf(target);
    return this.#until[this.#find()] !== 0;
  }

  /** Denies a target until an instant of the caller's clock, in milliseconds; never earlier than before. */
  add(target: string, untilMs: number): void {
    hashOf(target);
    this.#add(
      untilMs === Infinity ? FOR_EVER : Math.min(FOR_EVER - 1, Math.max(1, Math.ceil(untilMs / 1_000))),
    );
  }

  /** Takes over the targets of another table, which must not be used afterwards. */
  absorb(other: DeniedTargets): void {
    if (other.#size > this.#size) {
      [this.#keys, other.#keys] = [other.#keys, this.#keys];
      [this.#until, other.#until] = [other.#until, this.#until];
      [this.#size, other.#size] = [other.#size, this.#size];
      this.#cursor = 0;
    }
    for (let slot = 0; slot < other.#until.length; slot += 1) {
      const until = other.#until[slot] ?? 0;
      if (until !== 0) {
        readHash(other.#keys, slot);
        this.#add(until);
      }
    }
  }

  /** Denies the hashed target until a second of the caller's clock. */
  #add(until: number): void {
    if (this.#size >= this.#until.length * LOAD_MAX) {
      const [one, two, three] = [first, second, third];
      this.#grow();
      [first, second, third] = [one, two, three];
    }
    const slot = this.#find();
    const known = this.#until[slot] ?? 0;
    if (known === 0) {
      this.#put(slot, first, second, third);
      this.#size += 1;
    }
    this.#until[slot] = Math.max(known, until);
  }

  /** Removes ended targets from a part of the table; the next call continues. */
  prune(nowMs: number): void {
    const now = nowMs / 1_000;
    const slots = this.#until.length;
    for (let visited = 0; visited < Math.min(slots, PRUNED_AT_ONCE);) {
      const until = this.#until[this.#cursor] ?? 0;
      if (until !== 0 && until !== FOR_EVER && until <= now) {
        // Another entry may move here, so the slot is visited again.
        this.#remove(this.#cursor);
      } else {
        this.#cursor = (this.#cursor + 1) & (slots - 1);
        visited += 1;
      }
    }
  }

  /** Returns the slot of the hashed target, or the free one where it belongs. */
  #find(): number {
    const mask = this.#until.length - 1;
    let slot = first & mask;
    while (
      this.#until[slot] !== 0 &&
      (this.#keys[WORDS * slot] !== first ||
        this.#keys[WORDS * slot + 1] !== second ||
        this.#keys[WORDS * slot + 2] !== third)
    ) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #put(slot: number, one: number, two: number, three: number): void {
    this.#keys[WORDS * slot] = one;
    this.#keys[WORDS * slot + 1] = two;
    this.#keys[WORDS * slot + 2] = three;
  }

  /** Frees a slot, and closes the gap that this leaves in the entries behind it (Knuth, 6.4, algorithm R). */
  #remove(freed: number): void {
    const mask = this.#until.length - 1;
    let hole = freed;
    let slot = freed;
    this.#size -= 1;
    for (;;) {
      slot = (slot + 1) & mask;
      if (this.#until[slot] === 0) {
        break;
      }
      const home = (this.#keys[WORDS * slot] ?? 0) & mask;
      // Whether its home lies after the hole, so that it must stay.
      if (((slot - home) & mask) < ((slot - hole) & mask)) {
        continue;
      }
      this.#keys.copyWithin(WORDS * hole, WORDS * slot, WORDS * (slot + 1));
      this.#until[hole] = this.#until[slot] ?? 0;
      hole = slot;
    }
    this.#until[hole] = 0;
  }

  #grow(): void {
    const keys = this.#keys;
    const until = this.#until;
    this.#keys = new Uint32Array(2 * keys.length);
    this.#until = new Uint32Array(2 * until.length);
    this.#cursor = 0;
    for (let slot = 0; slot < until.length; slot += 1) {
      if (until[slot] !== 0) {
        readHash(keys, slot);
        const place = this.#find();
        this.#put(place, first, second, third);
        this.#until[place] = until[slot] ?? 0;
      }
    }
  }
}
