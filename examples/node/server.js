// Counts visits. Needs nothing but Node.
import { createServer } from "node:http";

export function counter() {
  let visits = 0;
  return createServer((request, response) => {
    if (request.url !== "/") {
      response.writeHead(404).end();
      return;
    }
    visits++;
    response.writeHead(200, { "Content-Type": "text/plain" }).end(`visit ${visits}\n`);
  });
}

if (import.meta.filename === process.argv[1]) {
  counter().listen(3000);
}
