// Numbers for people.

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) [count, at] = [count / 1024, at + 1];
  return `${at && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[at]}`;
}

export const rate = (bytesPerSecond) => `${bytes(bytesPerSecond)}/s`;

export const count = (number) => Math.round(number).toLocaleString("en");

export const files = (number) => (number === 1 ? "1 file" : `${count(number)} files`);

export function span(seconds) {
  const [d, h, m] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min` : `${Math.floor(seconds)} s`;
}

// What is not known is not free.
export function dollars(nanoUsd) {
  if (nanoUsd === null) return "unknown";
  const usd = nanoUsd / 1e9;
  if (usd === 0) return "$0";
  if (usd < 1e-6) return "< $0.000001";
  return `$${usd < 0.01 ? usd.toPrecision(2) : usd.toFixed(2)}`;
}
