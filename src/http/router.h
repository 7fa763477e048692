// A table of method and path → function: the Handler that answers 404, 405 with Allow, HEAD and OPTIONS by itself, on
// the head.
// Filled before the server starts, read-only afterwards, so io threads share it without a lock.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "http/server.h"

namespace quire {

class Router final : public Handler {
 public:
  using Route = std::function<Verdict(const HttpRequest& head)>;

  // `path` is an exact decoded path, or ends in "/*" and matches every longer path below it; the longest match wins.
  // A GET route answers HEAD too (the server drops the body). REQUIRES a method and path not added before.
  void add(std::string_view method, std::string_view path, Route route);
  // A route that takes every head.
  void answer(std::string_view method, std::string_view path, Verdict::Answer answer);
  Verdict judge(const HttpRequest& head) override;

 private:
  using Methods = std::map<std::string, Route, std::less<>>;
  const Methods* find(std::string_view path) const;

  std::map<std::string, Methods, std::less<>> exact_;
  std::map<std::string, Methods, std::less<>> below_;  // key without the "*"
};

}  // namespace quire
