// A flag that says that a question is under way. It is lowered once the last copy of this goes, so whatever ends the
// question lowers it: an answer, a server that stops, or want of memory at any place.
#pragma once
#include <atomic>
#include <memory>
#include <utility>

namespace quire {

using RaisedFlag = std::shared_ptr<std::atomic<bool>>;

// REQUIRES the flag is up; `owner` keeps it, for a task that nobody runs any more may go late. Where this throws it is
// lowered too.
inline RaisedFlag lower_at_end(std::atomic<bool>& flag, std::shared_ptr<const void> owner) {
  return RaisedFlag(&flag, [owner = std::move(owner)](std::atomic<bool>* raised) { raised->store(false); });
}

}  // namespace quire
