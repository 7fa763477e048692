#include "engine/request_view.h"

#include <algorithm>

#include "engine/scheduler.h"

namespace quire {
namespace {

RequestView view_of(const Sequence& seq) {
  RequestView out;
  out.id = seq.id;
  out.tenant = seq.request.tenant;
  out.priority = seq.request.priority;
  out.submitted_ns = seq.submitted_ns;
  out.n_prompt = seq.n_prompt - seq.n_virtual;
  out.n_cached = seq.account.n_cached;
  out.n_computed = std::max(seq.n_computed - seq.n_virtual, 0);
  out.n_generated = seq.n_generated();
  out.n_preempted = seq.n_preempted;
  out.sent_back = seq.sent_back;
  out.n_ahead = seq.n_ahead;
  return out;
}

void tell_hold(const Scheduler& scheduler, const Sequence& seq, RequestView& out) {
  if (seq.load != nullptr) {
    out.hold = Hold::load;
    out.wanted = static_cast<int64_t>(seq.load->run.n_blocks());
    out.have = seq.load->n_arrived;
  } else if (seq.follows.leader != 0) {
    out.hold = Hold::leader;
    out.other = seq.follows.leader;
    out.wanted = seq.follows.n_shared - seq.n_virtual;
    const auto running = scheduler.running();
    const auto leader = std::ranges::find_if(running, [&](const auto& other) { return other->id == out.other; });
    if (leader != running.end()) out.have = std::max((*leader)->n_computed - seq.n_virtual, 0);
  } else if (!scheduler.granted(seq)) {
    out.hold = scheduler.is_full() ? Hold::budget : Hold::step_time;
    out.wanted = scheduler.step_tokens();
  }
}

}  // namespace

// Of those that wait the first says why; a queue that the last plan did not sort is in the order in which it lies.
void view_requests(const Scheduler& scheduler, int64_t now_ns, RequestViews& out) {
  out.views.clear();
  out.views.reserve(scheduler.running().size() + scheduler.waiting().size());
  out.seen_ns = now_ns;
  for (const auto& seq : scheduler.running()) {
    RequestView view = view_of(*seq);
    view.running = true;
    tell_hold(scheduler, *seq, view);
    out.views.push_back(view);
  }
  const auto waiting = scheduler.waiting();
  for (size_t i = 0; i < waiting.size(); ++i) {
    RequestView view = view_of(*waiting[i]);
    const Scheduler::Halt& halt = scheduler.halt();
    view.hold = i == 0 ? halt.hold : Hold::behind;
    view.wanted = i == 0 ? halt.wanted : static_cast<int64_t>(i);
    view.have = i == 0 ? halt.have : 0;
    if (i > 0) view.other = waiting.front()->id;
    out.views.push_back(view);
  }
}

}  // namespace quire
