// The loop's door for requests: what can be said before anything is computed, and who has a place in the queue. Any
// thread.
#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "engine/invocation.h"
#include "engine/known_output.h"
#include "engine/loop_engine.h"
#include "sample/rules.h"

namespace quire {
namespace {

// Counted among those that wait, unless it comes to nothing.
struct Counted {
  Counted(std::atomic<int>& of, int how_many) : count(of), n(how_many), n_before(of.fetch_add(how_many)) {}
  ~Counted() {
    if (!kept) count -= n;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  std::atomic<int>& count;
  const int n, n_before;
  bool kept = false;
};

std::string no_place(int n, int n_waiting, int n_places) {
  const std::string wait = std::to_string(n_waiting) + " requests wait";
  if (n == 1) return "the queue is full: " + wait;
  return "the queue has no room for " + std::to_string(n) + " sequences: " + wait + ", at most " +
         std::to_string(n_places) + " can";
}

std::string no_share(int n, int n_waiting, int max) {
  const std::string what = n == 1 ? "the queue is full for this client: "
                                  : "the queue has no room for " + std::to_string(n) + " sequences of this client: ";
  return what + std::to_string(n_waiting) + " requests wait, of one client at most " + std::to_string(max);
}

}  // namespace

Result<int> LoopEngine::n_virtual(const Request& request) const {
  if (request.prefix == 0) return 0;
  const auto at = std::ranges::find(env_.prefixes, request.prefix, &VirtualTokens::content);
  if (at != env_.prefixes.end()) return at->n;
  return fail(Code::invalid, "prefix " + std::to_string(request.prefix) + " is none of the " +
                                 std::to_string(env_.prefixes.size()) + " that are loaded");
}

Result<SeqId> LoopEngine::submit(Request request, std::shared_ptr<EventSink> sink) {
  QR_CHECK(sink != nullptr);
  QR_TRY(const int n_before, n_virtual(request));
  QR_TRY_VOID(check_request(request, limits_, n_before));
  if (request.adapter != nullptr && env_.recorder != nullptr)
    return fail(Code::invalid, "this run is recorded, and a recording holds no adapters");
  QR_TRY_VOID(check_pin(request, n_before));
  QR_TRY_VOID(check_explain(request));
  if (request.places == nullptr) {
    QR_TRY(request.places, reserve(request.tenant, 1));
  }
  const std::shared_ptr<QueuePlaces> places = std::move(request.places);
  auto rules = make_rules({request.sampling, request.prompt, request.stop_ids, limits_.n_vocab});
  std::ranges::move(rules, std::inserter(request.rules, request.rules.begin()));
  QR_TRY_VOID(replay_output(request, env_.recorder != nullptr));
  auto seq = std::make_unique<Sequence>();
  seq->submitted_ns = env_.clock->now_ns();
  if (n_before > 0 || !request.output.empty()) seq->tokens = known_tokens(request, n_before);
  seq->n_virtual = seq->of_prompt.n_pooled = n_before;
  seq->of_prompt.n_scored = n_before + 1;
  seq->n_prompt = n_before + static_cast<int>(request.prompt.size());
  if (request.adapter != nullptr) seq->n_base = tokens_before_invocation(request.prompt, request.adapter->invocation);
  seq->budget = {request.kv_budget, seq->n_prompt, options_.block_tokens};
  seq->request = std::move(request);
  seq->sink = std::move(sink);
  seq->in_queue = true;
  const SeqId id = inbox_.submit(std::move(seq));
  if (id == 0) return fail(Code::cancelled, "the engine has stopped");
  places->take();
  return id;
}

Result<std::shared_ptr<QueuePlaces>> LoopEngine::reserve(uint64_t tenant, int n) {
  Counted counted(n_inbox_, n);
  const int max_queue = options_.max_queue, n_places = QueueShares::places(max_queue);
  const int n_waiting = counted.n_before + n_waiting_.load();
  if (n > n_places - n_waiting) return fail(Code::exhausted, no_place(n, n_waiting, n_places));
  if (!shares_.enter(tenant, n, max_queue, n_waiting)) return fail(Code::exhausted, no_share(n, n_waiting, max_queue));
  try {
    auto places = std::make_shared<QueuePlaces>(n, [this, tenant](int n_left) {
      n_inbox_ -= n_left;
      shares_.leave(tenant, n_left);
    });
    counted.kept = true;
    return places;
  } catch (const std::bad_alloc&) {
    shares_.leave(tenant, n);
    throw;
  }
}

// What can be said before anything is computed.
Status LoopEngine::check_pin(const Request& request, int n_virtual) const {
  if (request.pin.id == 0) return {};
  if (!options_.prefix_cache) return fail(Code::invalid, "nothing can be pinned: the prefix cache is off");
  if (env_.recorder != nullptr)
    return fail(Code::invalid, "nothing can be pinned: this run is recorded, and a recording holds no pins");
  if (pins_.limits().n_pins == 0)
    return fail(Code::invalid, "nothing can be pinned: no memory is set aside for it (pin_bytes is 0)");
  const int n = pins_.whole_tokens(n_virtual + static_cast<int>(request.prompt.size()));
  if (n <= n_virtual) {
    return fail(Code::invalid, "whole blocks of " + std::to_string(options_.block_tokens) +
                                   " tokens before the last token are pinned; the prompt of " +
                                   std::to_string(request.prompt.size()) + " tokens has none");
  }
  if (const std::string why = pins_.never_fits(n); !why.empty()) return fail(Code::invalid, why);
  return {};
}

Status LoopEngine::check_explain(const Request& request) const {
  if (request.explain == nullptr) return {};
  if (!options_.prefix_cache) return fail(Code::invalid, "nothing can be explained: the prefix cache is off");
  if (env_.recorder != nullptr)
    return fail(Code::invalid, "nothing can be explained: this run is recorded, and a recording holds no explanations");
  if (request.pin.id != 0) return fail(Code::invalid, "a request is explained or pinned, not both");
  if (request.kv_budget != 0) return fail(Code::invalid, "kv_budget: a request is explained or has a budget, not both");
  const auto n = static_cast<int>(request.explain->others.size());
  if (n <= kMostOtherRoots) return {};
  return fail(Code::invalid, std::to_string(n) + " other adapters and salts are to be looked at: the limit is " +
                                 std::to_string(kMostOtherRoots));
}

}  // namespace quire
