#include "backend/cuda/tables.h"

#include <algorithm>

namespace quire::cuda {

constexpr int64_t kMostBytes = int64_t{2} << 20;  // beside an arena; whole numbers beyond lie in it

Result<Buffer> TableCopies::allocate(int64_t bytes) {
  const int64_t n = std::min(bytes, kMostBytes);
  const auto release = [runtime = runtime_](std::byte* p) { runtime->release(p); };
  QR_TRY(std::byte * data, runtime_->allocate(bytes, Place::shared));
  std::shared_ptr<std::byte> memory(data, release);
  QR_TRY(std::byte * host, runtime_->allocate(n, Place::pinned));
  const std::shared_ptr<std::byte> pinned(host, release);
  QR_TRY(std::byte * device, runtime_->allocate(n, Place::device));
  const std::shared_ptr<std::byte> copy(device, release);
  const auto forget = [pinned, copy, pairs = pairs_](const Tables* mine) {
    std::erase_if(*pairs, [&](const Pair& of) { return of.tables == mine; });
    delete mine;
  };
  std::shared_ptr<Tables> tables(new Tables{host, n}, forget);
  pairs_->push_back({tables.get(), device});
  return Buffer::of(std::move(memory), bytes, std::move(tables));
}

void TableCopies::upload() const {
  for (const Pair& of : *pairs_) {
    if (of.tables->used > 0) runtime_->upload(of.copy, of.tables->data, of.tables->used);
  }
}

const TableCopies::Pair* TableCopies::find(const Tensor& t) const {
  const auto holds = [&](const Pair& of) {
    return t.data >= of.tables->data && t.data < of.tables->data + of.tables->bytes;
  };
  const auto found = std::ranges::find_if(*pairs_, holds);
  return found != pairs_->end() ? &*found : nullptr;
}

const int32_t* TableCopies::numbers(const Tensor& t) const {
  const Pair* of = find(t);
  return of != nullptr ? reinterpret_cast<const int32_t*>(of->copy + (t.data - of->tables->data)) : t.ptr<int32_t>();
}

}  // namespace quire::cuda
