#include "kv/tiers/segment_store.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "base/secure_random.h"

namespace quire {
namespace {

constexpr size_t kMostSegments = 256;  // a process that is restarted often leaves small ones
constexpr int kParts = 64;
constexpr int64_t kLeastSegment = int64_t{1} << 20;
constexpr std::string_view kEnding = ".kvseg";
constexpr size_t kDigits = 16;

std::string name_of(uint64_t number) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out(kDigits, '0');
  for (size_t i = 0; i < kDigits; ++i) out[i] = kHex[number >> (4 * (kDigits - 1 - i)) & 15];
  return out + std::string(kEnding);
}

// False: it is no segment's name, and no business of ours.
bool number_of(const std::string& name, uint64_t& out) {
  if (name.size() != kDigits + kEnding.size() || !name.ends_with(kEnding)) return false;
  const auto [end, error] = std::from_chars(name.data(), name.data() + kDigits, out, 16);
  return error == std::errc() && end == name.data() + kDigits && name == name_of(out);
}

StoreOptions resolved(StoreOptions options) {
  if (options.segment_bytes == 0) {
    const int64_t least = std::min(options.most_bytes / 4, kLeastSegment);
    options.segment_bytes = std::max(options.most_bytes / kParts, least);
  }
  return options;
}

// A wish takes memory whether its block is there or not.
StoredWishes::Limits limits_of(const StoreOptions& options) {
  const int64_t each = usual_record_bytes(options.shape);
  const int64_t bytes = std::min(options.retain_bytes, options.most_blocks / 4 * each);
  return {bytes, (bytes + 1) / 2, each};
}

}  // namespace

int64_t least_store_bytes(const StoreShape& shape) {
  return 4 * (kSegmentHeadBytes + most_head_bytes(shape) + usual_record_bytes(shape));
}

size_t SegmentStore::HashOfName::operator()(const Hash128& name) const { return mix64(name.lo ^ seed); }

SegmentStore::SegmentStore(std::unique_ptr<TierFolder> folder, const StoreOptions& options)
    : folder_(std::move(folder)),
      options_(resolved(options)),
      index_(0, HashOfName{secure_random_bits()}),
      wishes_(limits_of(options_), secure_random_bits()) {}

Result<std::unique_ptr<SegmentStore>> SegmentStore::open(std::unique_ptr<TierFolder> folder,
                                                         const StoreOptions& options) {
  const int64_t least = least_store_bytes(options.shape);
  if (options.most_bytes < least) {
    return fail(Code::invalid, "the size must be at least " + std::to_string(least) +
                                   " bytes, room for four blocks; got " + std::to_string(options.most_bytes));
  }
  std::unique_ptr<SegmentStore> out(new SegmentStore(std::move(folder), options));
  QR_TRY_VOID(out->read_folder());
  return out;
}

// --- what is there ---

Status SegmentStore::read_folder() {
  QR_TRY(const std::vector<std::string> names, folder_->names());
  std::vector<uint64_t> numbers;
  for (const std::string& name : names)
    if (uint64_t number = 0; number_of(name, number)) numbers.push_back(number);
  std::ranges::sort(numbers, std::greater<>());
  if (!numbers.empty()) last_number_ = numbers.front();
  for (const uint64_t number : numbers) {
    Segment segment;
    segment.number = number;
    segment.name = name_of(number);
    const Result<std::shared_ptr<TierFile>> file = folder_->open(segment.name);
    if (file) segment.file = *file;
    if (file) segment.bytes = (*file)->size().value_or(0);
    counts_.bytes += segment.bytes;
    const bool fits = counts_.bytes <= options_.most_bytes && counts_.n_stored < options_.most_blocks &&
                      segments_.size() < kMostSegments;
    if (!file || !fits || !scan(segment)) {
      segment.file = nullptr;
      ++counts_.n_skipped_segments;
    }
    segments_.emplace(number, std::move(segment));
  }
  return {};
}

// Until there are as many blocks as there may be, or the first thing that is no record: behind it nothing was promised.
Status SegmentStore::scan(Segment& segment) {
  std::vector<std::byte> buffer(static_cast<size_t>(kSegmentHeadBytes));
  QR_TRY(const size_t n, segment.file->read(0, buffer));
  QR_TRY_VOID(check_segment_head(std::span(buffer).first(n), options_.shape, segment.number));
  for (int64_t offset = kSegmentHeadBytes; offset < segment.bytes && counts_.n_stored < options_.most_blocks;) {
    Result<RecordHead> head = read_head(segment, offset, usual_head_bytes(options_.shape));
    if (!head && head.error().code == Code::exhausted)
      head = read_head(segment, offset, most_head_bytes(options_.shape));
    if (!head || head->record_bytes() > segment.bytes - offset) return {};
    learn(segment, offset, *head);
    offset += head->record_bytes();
  }
  return {};
}

Result<RecordHead> SegmentStore::read_head(const Segment& segment, int64_t offset, int64_t most_bytes) const {
  std::vector<std::byte> bytes(static_cast<size_t>(most_bytes));
  QR_TRY(const size_t n, segment.file->read(offset, bytes));
  return parse_record_head(std::span(bytes).first(n), options_.shape);
}

void SegmentStore::learn(Segment& segment, int64_t offset, const RecordHead& head) {
  const Hash128& name = head.spelling.name;
  const Place place{segment.number, offset, head.head_bytes, head.payload_bytes, head.groups};
  const auto [at, fresh] = index_.try_emplace(name, place);
  if (!fresh && at->second.segment == segment.number) at->second = place;  // otherwise a newer segment has it
  segment.blocks.push_back(name);
  ++counts_.n_stored;
}

// --- writing ---

Status SegmentStore::append(std::vector<Block> blocks) {
  Status out;
  try {
    out = append_all(std::move(blocks));
  } catch (const std::bad_alloc&) {
    out = fail(Code::exhausted, "out of memory");
  }
  if (!out) {
    pending_.clear();
    current_ = nullptr;
  }
  return out;
}

// What has to move out of a segment that goes is appended like the rest.
Status SegmentStore::append_all(std::vector<Block> blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Hash128 name = blocks[i].spelling.name;
    const auto known = [&](const auto& entry) { return entry.first == name; };
    if ((find(name) | blocks[i].block.groups) == find(name) || std::ranges::any_of(pending_, known)) continue;
    const int64_t bytes = most_head_bytes(options_.shape) + std::ssize(blocks[i].block.bytes) + 8;
    std::vector<Block> moved;
    QR_TRY_VOID(ready_for(bytes, moved));
    QR_TRY_VOID(write(blocks[i]));
    blocks[i].block = {};
    std::ranges::move(moved, std::back_inserter(blocks));
  }
  return finish();
}

// Of the current one: so much more is for the next.
bool SegmentStore::is_full(const Segment& current, int64_t bytes) const {
  return current.bytes + bytes > options_.segment_bytes ||
         std::ssize(current.blocks) + std::ssize(pending_) >= options_.most_blocks / kParts;
}

// A current segment with room for so much, and so much room in all.
Status SegmentStore::ready_for(int64_t bytes, std::vector<Block>& moved) {
  if (current_ != nullptr && current_->bytes > kSegmentHeadBytes && is_full(*current_, bytes)) {
    QR_TRY_VOID(finish());
    current_ = nullptr;
  }
  const auto full = [&] {
    const int64_t wanted = bytes + (current_ == nullptr ? kSegmentHeadBytes : 0);
    return counts_.bytes + wanted > options_.most_bytes || segments_.size() >= kMostSegments ||
           counts_.n_stored + std::ssize(pending_) >= options_.most_blocks;
  };
  while (full() && !segments_.empty() && &segments_.begin()->second != current_) QR_TRY_VOID(drop_oldest(moved));
  if (counts_.bytes + bytes > options_.most_bytes) {
    return fail(Code::exhausted, "a block of " + std::to_string(bytes) + " bytes does not fit into the " +
                                     std::to_string(options_.most_bytes) + " that there may be");
  }
  return current_ == nullptr ? begin_segment() : Status{};
}

Status SegmentStore::begin_segment() {
  Segment segment;
  segment.number = ++last_number_;
  segment.name = name_of(segment.number);
  QR_TRY(segment.file, folder_->create(segment.name));
  const std::vector<std::byte> head = segment_head(options_.shape, segment.number);
  const Status written = segment.file->write(0, head);
  segment.bytes = std::ssize(head);
  const std::lock_guard lock(mutex_);
  counts_.bytes += segment.bytes;
  current_ = &segments_.emplace(segment.number, std::move(segment)).first->second;
  new_file_ = true;
  return written;
}

// What of the oldest is to stay for longer, the highest priority first, then what was read since it was written; at
// most half of a segment: what goes must make room.
std::vector<SegmentStore::Place> SegmentStore::moving_of(const Segment& oldest) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<int, Place>> wanted;
  for (const Hash128& name : oldest.blocks) {
    const auto at = index_.find(name);
    if (at == index_.end() || at->second.segment != oldest.number) continue;
    const int priority = wishes_.priority_of(name, now_ns_);
    if (priority > kUsualPriority || at->second.used) wanted.emplace_back(priority, at->second);
  }
  std::ranges::stable_sort(wanted, std::greater<>(), [](const auto& entry) { return entry.first; });
  std::vector<Place> out;
  int64_t bytes = 0;
  for (const auto& [priority, place] : wanted) {
    bytes += place.payload_bytes;
    if (bytes > options_.segment_bytes / 2 || std::ssize(out) >= options_.most_blocks / kParts / 2) break;
    out.push_back(place);
  }
  return out;
}

std::vector<SegmentStore::Block> SegmentStore::blocks_of(const Segment& oldest) const {
  std::vector<Block> out;
  for (const Place& place : moving_of(oldest)) {
    const Result<RecordHead> head = read_head(oldest, place.offset, place.head_bytes);
    if (!head) continue;
    Read read = read_at(place, *oldest.file, head->spelling);
    if (read.outcome == Read::Outcome::found) out.push_back({head->spelling, std::move(read.block)});
  }
  return out;
}

Status SegmentStore::drop_oldest(std::vector<Block>& moved) {
  Segment& oldest = segments_.begin()->second;
  std::vector<Block> used = blocks_of(oldest);
  std::vector<Hash128> moving;
  for (const Block& block : used) moving.push_back(block.spelling.name);
  std::ranges::sort(moving);
  QR_TRY_VOID(folder_->remove(oldest.name));
  const std::lock_guard lock(mutex_);
  for (const Hash128& name : oldest.blocks) {
    const auto at = index_.find(name);
    if (at == index_.end() || at->second.segment != oldest.number) continue;
    index_.erase(at);
    if (!std::ranges::binary_search(moving, name)) wishes_.forget(name);
  }
  counts_.bytes -= oldest.bytes;
  counts_.n_stored -= std::ssize(oldest.blocks);
  counts_.n_moved += std::ssize(used);
  ++counts_.n_dropped_segments;
  segments_.erase(segments_.begin());
  std::ranges::move(used, std::back_inserter(moved));
  return {};
}

Status SegmentStore::write(const Block& block) {
  const std::vector<std::byte> bytes = record_bytes(options_.shape, block.spelling, block.block);
  const int64_t offset = current_->bytes;
  const Status written = current_->file->write(offset, bytes);
  {
    const std::lock_guard lock(mutex_);  // part of it may be there
    current_->bytes += std::ssize(bytes);
    counts_.bytes += std::ssize(bytes);
  }
  const auto payload_bytes = std::ssize(block.block.bytes);
  const int64_t head_bytes = std::ssize(bytes) - (payload_bytes + 7) / 8 * 8;
  pending_.emplace_back(block.spelling.name,
                        Place{current_->number, offset, head_bytes, payload_bytes, block.block.groups});
  return written;
}

// Makes what was written safe, and findable.
Status SegmentStore::finish() {
  if (pending_.empty()) return {};
  QR_TRY_VOID(current_->file->sync());
  if (new_file_) QR_TRY_VOID(folder_->sync());
  new_file_ = false;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, place] : pending_) {
    index_[name] = place;
    current_->blocks.push_back(name);
    ++counts_.n_stored;
    ++counts_.n_written;
    counts_.written_bytes += place.head_bytes + place.payload_bytes;
  }
  pending_.clear();
  return {};
}

int SegmentStore::retain(std::span<const NamedWish> wishes, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  now_ns_ = now_ns;
  for (size_t i = 0; i < wishes.size(); ++i) {
    if (!wishes_.note(wishes[i], now_ns)) return static_cast<int>(wishes.size() - i);
  }
  return 0;
}

void SegmentStore::tell_time(int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  now_ns_ = now_ns;
}

// --- reading ---

uint8_t SegmentStore::find(const Hash128& name) const {
  const std::lock_guard lock(mutex_);
  const auto at = index_.find(name);
  return at == index_.end() ? 0 : at->second.groups;
}

SegmentStore::Read SegmentStore::read(const Spelling& wanted) {
  Place place;
  std::shared_ptr<TierFile> file;
  {
    const std::lock_guard lock(mutex_);
    const auto at = index_.find(wanted.name);
    if (at == index_.end()) return {};
    place = at->second;
    file = segments_.at(place.segment).file;
  }
  Read out = read_at(place, *file, wanted);
  const std::lock_guard lock(mutex_);
  const auto at = index_.find(wanted.name);
  if (at == index_.end() || at->second.segment != place.segment || at->second.offset != place.offset) return out;
  at->second.used |= out.outcome == Read::Outcome::found;
  if (out.outcome == Read::Outcome::damaged || out.outcome == Read::Outcome::failed) index_.erase(at);
  return out;
}

SegmentStore::Read SegmentStore::read_at(const Place& place, const TierFile& file, const Spelling& wanted) const {
  using Outcome = Read::Outcome;
  std::vector<std::byte> bytes(static_cast<size_t>(place.head_bytes + place.payload_bytes));
  const Result<size_t> n = file.read(place.offset, bytes);
  if (!n) return {Outcome::failed, {}};
  if (*n != bytes.size()) return {Outcome::damaged, {}};
  const Result<RecordHead> head = parse_record_head(bytes, options_.shape);
  if (!head || head->head_bytes != place.head_bytes || head->payload_bytes != place.payload_bytes)
    return {Outcome::damaged, {}};
  if (!(head->spelling == wanted)) return {Outcome::other, {}};
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(place.head_bytes));
  if (!is_payload(*head, bytes)) return {Outcome::damaged, {}};
  return {Outcome::found, {head->groups, std::move(bytes)}};
}

SegmentStore::Counts SegmentStore::counts() const {
  const std::lock_guard lock(mutex_);
  Counts out = counts_;
  out.n_blocks = std::ssize(index_);
  out.retained_bytes = wishes_.bytes();
  out.most_retained_bytes = wishes_.limits().bytes;
  return out;
}

}  // namespace quire
