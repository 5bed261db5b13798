/** A scripted name server on loopback, with real packets over UDP (RFC 1035). */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { isIP } from "node:net";
import { addressWords } from "#runtime/address-set.ts";

/** One record of a response: an address, or an alias to another name. */
export interface DnsRecord {
  readonly name?: string;
  readonly value: string;
  /** In seconds (default: 0). */
  readonly ttl?: number;
}

/** The response to a question: records, an error, or none. */
type DnsAnswer = readonly DnsRecord[] | "drop" | "SERVFAIL" | "NXDOMAIN" | "garbage" | LateAnswer;

/** Records that arrive some milliseconds later. */
interface LateAnswer {
  readonly afterMs: number;
  readonly records: readonly DnsRecord[];
}

export interface DnsQuestion {
  readonly name: string;
  readonly type: "A" | "AAAA" | "other";
}

export interface DnsServer {
  /** `127.0.0.1:port` */
  readonly address: string;
  readonly questions: readonly DnsQuestion[];
  answer(how: (question: DnsQuestion) => DnsAnswer): void;
  close(): Promise<void>;
}

const TYPES: Readonly<Record<number, DnsQuestion["type"]>> = { 1: "A", 28: "AAAA" };
const CODES = { SERVFAIL: 2, NXDOMAIN: 3 } as const;
const HEADER_BYTES = 12;

function encodeName(name: string): Buffer {
  const labels = name.split(".").map((label) => {
    const bytes = Buffer.from(label, "latin1");
    return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  });
  return Buffer.concat([...labels, Buffer.from([0])]);
}

function decodeQuestion(packet: Buffer): { readonly question: DnsQuestion; readonly end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = packet[at] ?? 0; length > 0; length = packet[at] ?? 0) {
    labels.push(packet.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  const type = TYPES[packet.readUInt16BE(at + 1)] ?? "other";
  return { question: { name: labels.join(".").toLowerCase(), type }, end: at + 5 };
}

function encodeRecord({ name, value, ttl = 0 }: DnsRecord, asked: string): Buffer {
  const family = isIP(value);
  const words = addressWords(value) ?? [];
  const data =
    family === 0
      ? encodeName(value)
      : Buffer.concat(
          words.map((word) => {
            const bytes = Buffer.alloc(4);
            bytes.writeUInt32BE(word);
            return bytes;
          }),
        );
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(family === 4 ? 1 : family === 6 ? 28 : 5, 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt32BE(ttl, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([encodeName(name ?? asked), fixed, data]);
}

export async function startDnsServer(): Promise<DnsServer> {
  const socket = createSocket("udp4");
  const questions: DnsQuestion[] = [];
  let how: (question: DnsQuestion) => DnsAnswer = () => "NXDOMAIN";
  socket.on("message", (packet, { port, address }) => {
    const { question, end } = decodeQuestion(packet);
    questions.push(question);
    const answer = how(question);
    if (answer === "drop") {
      return;
    }
    if (answer === "garbage") {
      socket.send(Buffer.concat([packet.subarray(0, 2), Buffer.alloc(64, 0xff)]), port, address);
      return;
    }
    const records = typeof answer === "string" ? [] : "afterMs" in answer ? answer.records : answer;
    const header = Buffer.from(packet.subarray(0, HEADER_BYTES));
    header.writeUInt16BE(0x8580 | (typeof answer === "string" ? CODES[answer] : 0), 2);
    header.writeUInt16BE(records.length, 6);
    header.writeUInt32BE(0, 8);
    const body = records.map((record) => encodeRecord(record, question.name));
    const whole = Buffer.concat([header, packet.subarray(HEADER_BYTES, end), ...body]);
    const send = () => socket.send(whole, port, address);
    if (typeof answer === "object" && "afterMs" in answer) {
      setTimeout(send, answer.afterMs);
    } else {
      send();
    }
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    questions,
    answer: (next) => {
      how = next;
    },
    close: async () => {
      socket.close();
      await once(socket, "close");
    },
  };
}
