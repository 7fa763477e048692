// The loop of commands with --jsonl: a line in, a line out.
#pragma once
#include <iostream>
#include <string>

#include "base/json.h"

namespace quire {

// stdin to stdout: one JSON value per input line, one object per output line, reply(value) makes it; a bad line becomes
// {"error": …} and the rest go on.
template <class Fn>
void each_line(Fn&& reply) {
  for (std::string line; std::getline(std::cin, line);) {
    const Result<Json> value = Json::parse(line);
    Json out;
    if (!value) {
      out.set("error", value.error().message);
    } else {
      out = reply(*value);
    }
    std::cout << out.dump() << '\n';
  }
}

}  // namespace quire
