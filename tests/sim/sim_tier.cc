#include "tests/sim/sim_tier.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace quire::sim {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr size_t kMostOffered = 256;

}  // namespace

SimTier::SimTier(const Script& script, const StoreShape& shape)
    : block_tokens_(script.knobs.block_tokens),
      read_ns_(script.knobs.tier_read_ns),
      one_fault_in_(script.knobs.tier_fault_in),
      rng_(mix64(script.seed ^ 0x71e4)) {
  disk_.fails = [this](TestDisk::Op op, const std::string&) {
    return (op == TestDisk::Op::read || op == TestDisk::Op::write) && one_in(one_fault_in_);
  };
  const int64_t a_block = shape.bytes_of(shape.all_groups()) + 512;
  const int64_t most = std::max(least_store_bytes(shape), script.knobs.tier_blocks * a_block);
  auto opened = SegmentStore::open(std::make_unique<TestFolder>(disk_), {shape, most, 0});
  QR_CHECK(opened.has_value());
  store_ = std::move(*opened);
}

bool SimTier::offer(const LeavingBlock& block, const KvView& memory) {
  uint8_t groups = 0;
  for (size_t g = 0; g < block.blocks.size(); ++g)
    groups = static_cast<uint8_t>(groups | (block.blocks[g] ? 1U << g : 0U));
  if ((store_->find(block.name) | groups) == store_->find(block.name)) return true;
  if (offered_.size() >= kMostOffered) return false;
  SegmentStore::Block copy{{block.name, block.parent, block.key, {}, {}}, {groups, {}}};
  copy.spelling.tokens.assign(block.tokens.begin(), block.tokens.end());
  copy.spelling.extras.assign(block.extras.begin(), block.extras.end());
  for (size_t g = 0; g < block.blocks.size(); ++g) {
    if (!block.blocks[g]) continue;
    const std::byte* from = memory.groups[g].base + block.blocks[g].id() * memory.groups[g].block_bytes;
    copy.block.bytes.insert(copy.block.bytes.end(), from, from + memory.groups[g].block_bytes);
  }
  offered_.push_back(std::move(copy));
  return true;
}

// One by one, so that each write is a record.
void SimTier::write() {
  for (SegmentStore::Block& block : offered_) {
    std::vector<SegmentStore::Block> one;
    one.push_back(std::move(block));
    (void)store_->append(std::move(one));
  }
  offered_.clear();
  for (const TestDisk::Entry& entry : disk_.log) {
    if (entry.op == TestDisk::Op::write) records_.push_back({entry.name, entry.offset, entry.bytes.size()});
  }
  disk_.log.clear();
}

// A bit of something, or one record in the place of another of its size.
void SimTier::damage() {
  if (records_.empty()) return;
  const auto any = [this]() -> const Record& {
    return records_[static_cast<size_t>(rng_.between(0, std::ssize(records_) - 1))];
  };
  const Record &from = any(), &to = any();
  const auto source = disk_.files.find(from.file), target = disk_.files.find(to.file);
  if (source == disk_.files.end() || target == disk_.files.end()) return;
  const auto to_at = static_cast<size_t>(to.offset);
  if (one_in(2)) {
    target->second[to_at + static_cast<size_t>(rng_.between(0, static_cast<int64_t>(to.n_bytes) - 1))] ^= std::byte{16};
  } else if (from.n_bytes == to.n_bytes) {
    std::memmove(target->second.data() + to_at, source->second.data() + from.offset, from.n_bytes);
  }
}

void SimTier::bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) {
  Job job{read, begin, end, 0, 0};
  begin_block(job);
  jobs_.push_back(job);
}

// Most take up to twice the usual time, some fifty times as long, and some never come.
void SimTier::begin_block(Job& job) {
  job.since_ns = now_ns_;
  const int64_t usual_ns = rng_.between(read_ns_, 2 * read_ns_);
  job.due_ns = now_ns_ + usual_ns;
  if (one_in(one_fault_in_)) job.due_ns = now_ns_ + 50 * usual_ns;
  if (!one_in(one_fault_in_)) return;
  job.due_ns = kNever;
  ++counts_.stalled;
}

void SimTier::bring_block(Job& job) {
  SegmentStore::Read got = store_->read(job.read->wanted(job.next));
  const bool found = got.outcome == SegmentStore::Read::Outcome::found;
  ++(found ? counts_.given : counts_.lost);
  found ? job.read->give(job.next, std::move(got.block), nullptr) : job.read->lose(job.next);
  const auto took = static_cast<double>(job.due_ns - job.since_ns);
  mean_read_ns_ = mean_read_ns_ == 0 ? took : mean_read_ns_ + (took - mean_read_ns_) / 8;
  ++job.next;
}

int64_t SimTier::predict_ns(int64_t n_blocks) {
  int64_t longest_ns = 0;
  for (const Job& job : jobs_) longest_ns = std::max(longest_ns, now_ns_ - job.since_ns);
  const bool hangs = static_cast<double>(longest_ns) > 2 * mean_read_ns_;
  return static_cast<int64_t>(mean_read_ns_ * static_cast<double>(n_blocks)) + (hangs ? longest_ns : 0);
}

void SimTier::tell_time(int64_t now_ns) {
  now_ns_ = now_ns;
  write();
  if (one_in(4L * one_fault_in_)) damage();
  bool any = false;
  for (Job& job : jobs_) {
    while (!job.read->abandoned() && job.next < job.end && job.due_ns <= now_ns) {
      bring_block(job);
      any = true;
      if (job.next < job.end) begin_block(job);
    }
  }
  std::erase_if(jobs_, [this](const Job& job) {
    const bool over = job.next == job.end;
    counts_.let_go += !over && job.read->abandoned() ? 1 : 0;
    return over || job.read->abandoned();
  });
  if (any && on_arrival_) on_arrival_();
}

int64_t SimTier::next_ns() const {
  int64_t next = kNever;
  for (const Job& job : jobs_) next = std::min(next, job.read->abandoned() ? kNever : job.due_ns);
  return next == kNever ? -1 : next;
}

bool SimTier::brings(const std::vector<Token>& tokens) const {
  return std::ranges::any_of(jobs_, [&](const Job& job) {
    const std::vector<Token>& first = job.read->wanted(0).tokens;
    if (job.read->abandoned()) return false;
    for (size_t at = 0; at + first.size() <= tokens.size(); at += static_cast<size_t>(block_tokens_)) {
      if (std::equal(first.begin(), first.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at))) return true;
    }
    return false;
  });
}

size_t SimTier::n_wanted() const {
  return static_cast<size_t>(std::ranges::count_if(jobs_, [](const Job& job) { return !job.read->abandoned(); }));
}

}  // namespace quire::sim
