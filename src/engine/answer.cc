#include "engine/answer.h"

#include <algorithm>
#include <exception>
#include <new>

#include "ops/sample_row.h"
#include "sample/rules.h"

namespace quire {

std::string failure(std::initializer_list<std::string_view> parts) noexcept {
  std::string out;
  try {
    for (const std::string_view part : parts) out += part;
  } catch (const std::bad_alloc&) {
    out = kNoMemory;
  }
  return out;
}

namespace {

constexpr std::string_view kRuleFailed = "a rule of the request failed: ";

// Of what a rule threw.
std::string rule_failure(std::string_view thrown) noexcept {
  return thrown.starts_with(kEndedByRules) ? failure({thrown}) : failure({kRuleFailed, thrown});
}

// Why no token could be sampled: the rules together forbid all of them, or the model gave no numbers.
std::string nothing_sampled(const Sequence& seq) noexcept {
  try {
    const std::string at = " at position " + std::to_string(seq.tokens.size());
    const std::string fields = forbidding_fields(seq.request.sampling);
    const std::string forbidden = "everything is forbidden" + (fields.empty() ? "" : " by " + fields);
    if (forbid_everything(seq.request.rules)) return std::string(kEndedByRules) + at + ": " + forbidden;
    return "no token could be sampled" + at + ": the model's logits are not finite, or " + forbidden;
  } catch (const std::bad_alloc&) {
    return std::string(kNoMemory);
  } catch (const std::exception& error) {
    return rule_failure(error.what());
  }
}

// Whether the end rule ends it. What a rule throws is the error, and the token is not part of the answer.
bool accept(Sequence& seq, const Sampled& sampled, Ended& end) {
  try {
    for (const auto& rule : seq.request.rules) {
      rule->observe(sampled);
      rule->accept(sampled.token);
    }
    return seq.request.end != nullptr && seq.request.end->accept(sampled.token);
  } catch (const std::bad_alloc&) {
    end.error = kNoMemory;
  } catch (const std::exception& error) {
    end.error = rule_failure(error.what());
  }
  end.finish = Finish::error;
  return true;
}

bool fails(const Sequence& seq, const Sampled& sampled, Ended& end) {
  if (seq.fault.empty() && sampled.ok) return false;
  end.finish = Finish::error;
  if (seq.fault.empty() && sampled.token == kNoMemoryToken) {
    end.error = kNoMemory;
  } else if (seq.fault.empty()) {
    end.error = nothing_sampled(seq);
  } else {
    end.error = seq.fault == kNoMemory ? seq.fault : rule_failure(seq.fault);
  }
  return true;
}

// Takes the next token of `seq`. True when the sequence ends: `end` says how, and the token is part of the answer
// unless it is a stop id or an error's. What the request's own rules throw is its error.
bool take_token(Sequence& seq, Sampled& sampled, bool accepted, const Taking& how, Ended& end) {
  if (fails(seq, sampled, end)) return true;
  if (seq.first_token_ns < 0) seq.first_token_ns = how.now_ns;
  const Request& request = seq.request;
  if (std::find(request.stop_ids.begin(), request.stop_ids.end(), sampled.token) != request.stop_ids.end()) {
    seq.drew_stop_id = true;
    end.finish = Finish::stop;
    return true;
  }
  const bool stopped = accept(seq, sampled, end);
  if (end.finish == Finish::error) return true;
  seq.tokens.push_back(sampled.token);
  how.emit(seq, sampled, accepted);
  if (stopped) {
    end.finish = Finish::stop;
    return true;
  }
  end.finish = Finish::length;
  return seq.n_generated() >= request.max_tokens || static_cast<int>(seq.tokens.size()) >= how.n_ctx;
}

}  // namespace

Taken take_tokens(const Grant& grant, std::span<Sampled> all, size_t first, const Taking& how, Ended& end) {
  Sequence& seq = *grant.seq;
  Taken out;
  while (grant.n_out > 0) {
    const bool on_draft = out.way == kDraft;
    const Branch* branch = on_draft ? nullptr : &seq.branches[out.way];
    const int row =
        on_draft ? static_cast<int>(first) + out.n_accepted : branch->first_out + out.n_accepted - branch->n_shared - 1;
    Sampled& sampled = all[static_cast<size_t>(row)];
    const int next = way_on(seq, out.way, out.n_accepted, sampled.token);
    const size_t n_before = seq.tokens.size();
    out.over = take_token(seq, sampled, next != kNoWay, how, end);
    if (seq.tokens.size() == n_before || next == kNoWay) break;
    out.way = next;
    ++out.n_accepted;
    if (out.over) break;
  }
  return out;
}

}  // namespace quire
