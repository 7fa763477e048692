#include "tests/sim/sim_remote.h"

#include <algorithm>
#include <iterator>

#include "kv/tiers/remote_format.h"
#include "kv/tiers/tier_copy.h"

namespace quire::sim {
namespace {

constexpr size_t kMostOffered = 256, kMostKnown = 512;
constexpr int64_t kKnownNs = 400'000'000, kPauseNs = 20'000'000;
constexpr size_t kAskAtOnce = 16;

bool wanted_still(const std::shared_ptr<TierAnswer>& answer) { return !answer->abandoned() && !answer->told(); }

}  // namespace

SimRemote::SimRemote(const Script& script, StoreShape shape, StoredValues& values)
    : TimedTier(mix64(script.seed ^ 0x4e0), {script.knobs.remote_read_ns, script.knobs.tier_fault_in}),
      shape_(std::move(shape)),
      ask_ns_(script.knobs.remote_ask_ns),
      most_values_(static_cast<size_t>(script.knobs.remote_blocks)),
      evicts_(script.seed % 2 == 0),
      values_(values),
      known_(kMostKnown, kKnownNs, script.seed) {}

TierWish SimRemote::wish(const LeavingBlock& block) {
  const uint8_t groups = groups_of(block.blocks), has = find(block.name);
  if (groups == 0 || !up()) return TierWish::refuses;
  if ((has | groups) == has) return TierWish::has;
  return now_ns() < off_until_ns_ || offered_.size() >= kMostOffered ? TierWish::refuses : TierWish::wants;
}

bool SimRemote::take(const Spelling& block, TierBlock bytes) {
  offered_.emplace_back(block, std::move(bytes));
  return true;
}

std::shared_ptr<TierAnswer> SimRemote::ask(std::vector<Hash128> names) {
  if (!up()) return nullptr;
  ++told_.asked;
  const auto n_rounds = static_cast<int64_t>((names.size() + kAskAtOnce - 1) / kAskAtOnce);
  questions_.push_back(
      {std::make_shared<TierAnswer>(std::move(names)), now_ns(), due_ns(n_rounds * ask_ns_, now_ns())});
  return questions_.back().answer;
}

// Each block by itself, so that a later one may come before an earlier one.
void SimRemote::bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) TimedTier::bring(read, i, i + 1);
}

int64_t SimRemote::predict_ns(int64_t n_blocks) {
  constexpr int64_t kAtOnce = 8;
  if (n_blocks > 0) return TimedTier::predict_ns((n_blocks + kAtOnce - 1) / kAtOnce);
  int64_t longest_ns = 0;
  for (const Question& question : questions_) longest_ns = std::max(longest_ns, now_ns() - question.since_ns);
  const bool hangs = static_cast<double>(longest_ns) > 2 * mean_ask_ns_;
  return static_cast<int64_t>(mean_ask_ns_) + (hangs ? longest_ns : 0);
}

std::optional<TierBlock> SimRemote::read(const Spelling& wanted) {
  const auto at = up() ? values_.find(wanted.name) : values_.end();
  RemoteValue value;
  if (at != values_.end()) value = parse_value(at->second, shape_, wanted);
  if (at != values_.end() && value.outcome == RemoteValue::Outcome::found) return std::move(value.block);
  known_.forget_all();
  return std::nullopt;
}

// --- what befalls it ---

bool SimRemote::take_time() {
  store_all();
  if (one_in(4L * one_fault_in())) damage();
  if (one_in(16L * one_fault_in())) {
    ++told_.away;
    away_until_ns_ = now_ns() + rng().between(0, 50'000'000);
    known_.forget_all();
    if (one_in(2)) values_.clear();  // it comes back empty
  }
  bool any = false;
  for (Question& question : questions_) {
    if (!wanted_still(question.answer) || question.due_ns > now_ns()) continue;
    question.answer->tell(up() ? answer_to(question.answer->names()) : std::vector<uint8_t>{});
    const auto took = static_cast<double>(now_ns() - question.since_ns);
    mean_ask_ns_ = mean_ask_ns_ == 0 ? took : mean_ask_ns_ + (took - mean_ask_ns_) / 8;
    ++told_.answered;
    any = true;
  }
  std::erase_if(questions_, [](const Question& question) { return !wanted_still(question.answer); });
  return any;
}

// What is there up to the first name that is not; or, by chance, something else for some of them.
std::vector<uint8_t> SimRemote::answer_to(std::span<const Hash128> names) {
  const bool lies = one_in(2L * one_fault_in());
  told_.lies += lies ? 1 : 0;
  std::vector<uint8_t> out;
  for (const Hash128& name : names) {
    const auto at = values_.find(name);
    uint8_t groups = at == values_.end() ? uint8_t{0} : groups_of_head(at->second, shape_);
    if (lies && one_in(3)) groups = static_cast<uint8_t>(rng().between(0, shape_.all_groups()));
    if (groups == 0) break;
    out.push_back(groups);
    if (!lies) known_.put(name, groups, now_ns());
  }
  return out;
}

void SimRemote::store_all() {
  if (up()) {
    for (const auto& [spelling, block] : offered_) store(spelling, block);
  }
  offered_.clear();
}

void SimRemote::store(const Spelling& spelling, const TierBlock& block) {
  if (values_.size() >= most_values_ && !values_.contains(spelling.name)) {
    ++told_.full;
    if (!evicts_) off_until_ns_ = now_ns() + kPauseNs;
    if (!evicts_) return;
    values_.erase(any_value());
  }
  std::string value = remote_value(shape_, spelling, block);
  // Whoever knows more of a block has it stand: another server's may have other groups.
  const auto at = values_.find(spelling.name);
  if (at != values_.end() && (groups_of_head(at->second, shape_) | block.groups) != block.groups) return;
  if (one_in(one_fault_in())) spoil(value);
  values_[spelling.name] = std::move(value);
  known_.put(spelling.name, block.groups, now_ns());
}

StoredValues::iterator SimRemote::any_value() {
  const auto n = std::ssize(values_);
  return std::next(values_.begin(), n == 0 ? 0 : rng().between(0, n - 1));
}

// Something happens to one value.
void SimRemote::damage() {
  if (values_.empty()) return;
  const auto at = any_value();
  if (one_in(4)) {
    values_.erase(at);
  } else if (one_in(3)) {
    at->second = any_value()->second;
  } else {
    spoil(at->second);
  }
}

void SimRemote::spoil(std::string& value) {
  const auto last = std::ssize(value) - 1;
  const int64_t first = one_in(2) ? 0 : last - 15;  // anywhere, or in the block's own bytes
  const auto i = static_cast<size_t>(std::max<int64_t>(rng().between(first, std::max(first, last)), 0));
  if (value.empty() || one_in(4)) {
    value += 'x';
  } else if (one_in(3)) {
    value.resize(i);
  } else {
    value[i] = static_cast<char>(value[i] ^ 16);
  }
}

// --- what the world asks ---

int64_t SimRemote::next_ns() const {
  int64_t next = TimedTier::next_ns();
  for (const Question& question : questions_) {
    if (!wanted_still(question.answer) || question.due_ns == kNever) continue;
    next = next < 0 ? question.due_ns : std::min(next, question.due_ns);
  }
  return next;
}

size_t SimRemote::n_wanted() const {
  const auto n = std::ranges::count_if(questions_, [](const Question& q) { return wanted_still(q.answer); });
  return TimedTier::n_wanted() + static_cast<size_t>(n);
}

bool SimRemote::answers(const std::vector<Hash128>& names) const {
  return std::ranges::any_of(questions_, [&](const Question& question) {
    const Hash128& first = question.answer->names().front();
    return wanted_still(question.answer) && std::ranges::find(names, first) != names.end();
  });
}

}  // namespace quire::sim
