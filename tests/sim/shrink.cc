#include "tests/sim/shrink.h"

#include <algorithm>
#include <vector>

namespace quire::sim {
namespace {

class Shrinker {
 public:
  Shrinker(Script script, const std::function<bool(const Script&)>& fails, int max_tries)
      : best_(std::move(script)), fails_(fails), tries_(max_tries) {}

  Script shrink() {
    for (bool better = true; better && tries_ > 0;) {
      better = drop(&Script::requests);
      better |= drop(&Script::faults);
      better |= simplify_requests();
      better |= simplify_knobs();
    }
    return best_;
  }

 private:
  bool accept(const Script& next) {
    if (tries_ <= 0) return false;
    --tries_;
    if (!fails_(next)) return false;
    best_ = next;
    return true;
  }

  // Takes away runs of elements: halves, quarters, … single ones.
  template <class T>
  bool drop(std::vector<T> Script::* list) {
    bool better = false;
    for (size_t size = std::max<size_t>(1, (best_.*list).size() / 2);; size /= 2) {
      for (size_t at = 0; at < (best_.*list).size();) {
        Script next = best_;
        std::vector<T>& items = next.*list;
        const size_t end = std::min(items.size(), at + size);
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(at), items.begin() + static_cast<std::ptrdiff_t>(end));
        if (accept(next)) {
          better = true;
        } else {
          at += size;
        }
      }
      if (size <= 1) return better;
    }
  }

  // Tries one change of a copy; nothing to try where it changes nothing.
  template <class Change>
  bool change(const Change& f) {
    Script next = best_;
    f(next);
    return to_json(next) != to_json(best_) && accept(next);
  }
  // Down to `least`, by halves, then by one.
  template <class Field>
  bool lower(const Field& field, int64_t least) {
    bool better = false;
    for (bool again = true; again;) {
      again = false;
      const auto now = static_cast<int64_t>(field(best_));
      for (const int64_t to : {least, (now + least) / 2, now - 1}) {
        if (to < least || to >= now) continue;
        if (!change([&](Script& s) { field(s) = static_cast<std::decay_t<decltype(field(s))>>(to); })) continue;
        again = better = true;
        break;
      }
    }
    return better;
  }

  bool simplify_requests() {
    bool better = false;
    for (size_t i = 0; i < best_.requests.size(); ++i) {
      const RequestScript plain;
      const auto reset = [&](auto RequestScript::* field) {
        better |= change([&](Script& s) { s.requests[i].*field = plain.*field; });
      };
      reset(&RequestScript::poison), reset(&RequestScript::temperature), reset(&RequestScript::top_k);
      reset(&RequestScript::seed), reset(&RequestScript::stop_id), reset(&RequestScript::end_after);
      reset(&RequestScript::no_repeats), reset(&RequestScript::salt), reset(&RequestScript::priority);
      reset(&RequestScript::weight);
      reset(&RequestScript::cancel_ns), reset(&RequestScript::fault), reset(&RequestScript::arrival_ns);
      better |= lower([i](auto& s) -> auto& { return s.requests[i].max_tokens; }, 1);
      better |= lower([i](auto& s) -> auto& { return s.requests[i].at; }, 0);
      for (size_t p = 0; p < best_.requests[i].prompt.size(); ++p) {
        better |= lower([i, p](auto& s) -> auto& { return s.requests[i].prompt[p].n; }, 1);
        better |= change([&](Script& s) { s.requests[i].prompt[p].text = 0; });
      }
      if (best_.requests[i].prompt.size() > 1) better |= change([&](Script& s) { s.requests[i].prompt.pop_back(); });
    }
    return better;
  }

  bool simplify_knobs() {
    bool better = false;
    const Knobs plain;
    const auto reset = [&](auto Knobs::* field) {
      better |= change([&](Script& s) { s.knobs.*field = plain.*field; });
    };
    reset(&Knobs::max_seqs), reset(&Knobs::step_tokens), reset(&Knobs::max_chunk), reset(&Knobs::n_ctx);
    reset(&Knobs::block_tokens), reset(&Knobs::n_blocks), reset(&Knobs::max_queue);
    reset(&Knobs::window), reset(&Knobs::n_sinks), reset(&Knobs::max_draft), reset(&Knobs::max_side);
    reset(&Knobs::tier_blocks), reset(&Knobs::tier_read_ns), reset(&Knobs::tier_fault_in);
    reset(&Knobs::remote_blocks), reset(&Knobs::remote_ask_ns), reset(&Knobs::remote_read_ns);
    reset(&Knobs::remote_before);
    reset(&Knobs::policy), reset(&Knobs::noise), reset(&Knobs::itl_target_ms), reset(&Knobs::step_target_us);
    better |= change([](Script& s) { s.knobs.prefix_cache = false; });
    better |= change([](Script& s) { s.no_memory = false; });
    return better;
  }

  Script best_;
  const std::function<bool(const Script&)>& fails_;
  int tries_;
};

}  // namespace

Script shrink(Script script, const std::function<bool(const Script&)>& fails, int max_tries) {
  return Shrinker(std::move(script), fails, max_tries).shrink();
}

}  // namespace quire::sim
