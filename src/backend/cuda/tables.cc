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
  QR_TRY(std::byte * other, runtime_->allocate(n, Place::pinned));
  const std::shared_ptr<std::byte> beside(other, release);
  QR_TRY(std::byte * device, runtime_->allocate(n, Place::device));
  const std::shared_ptr<std::byte> copy(device, release);
  const auto forget = [pinned, beside, copy, pairs = pairs_](const Tables* mine) {
    std::erase_if(*pairs, [&](const Pair& of) { return of.tables == mine; });
    delete mine;
  };
  std::shared_ptr<Tables> tables(new Tables{host, other, n}, forget);
  pairs_->push_back({tables.get(), device});
  return Buffer::of(std::move(memory), bytes, std::move(tables));
}

void TableCopies::upload() const {
  for (const Pair& of : *pairs_) {
    if (of.tables->used > 0) runtime_->upload(of.copy, of.tables->data, of.tables->used);
  }
}

const std::byte* TableCopies::find(const Tensor& t) const {
  for (const Pair& of : *pairs_) {
    for (const std::byte* data : {of.tables->data, of.tables->other}) {
      if (t.data >= data && t.data < data + of.tables->bytes) return of.copy + (t.data - data);
    }
  }
  return nullptr;
}

const int32_t* TableCopies::numbers(const Tensor& t) const {
  const std::byte* copy = find(t);
  return copy != nullptr ? reinterpret_cast<const int32_t*>(copy) : t.ptr<int32_t>();
}

}  // namespace quire::cuda
