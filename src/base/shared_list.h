// A list that is made once and never changed, so that copies share it: what a request says of all its sequences is held
// once however many there are. As a value like a const std::vector.
#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace quire {

template <class T>
class SharedList {
 public:
  using value_type = T;
  using const_iterator = const T*;

  SharedList() = default;
  SharedList(std::vector<T> values)
      : values_(values.empty() ? nullptr : std::make_shared<const std::vector<T>>(std::move(values))) {}
  SharedList(std::initializer_list<T> values) : SharedList(std::vector<T>(values)) {}

  size_t size() const { return values_ == nullptr ? 0 : values_->size(); }
  bool empty() const { return size() == 0; }
  const T* data() const { return values_ == nullptr ? nullptr : values_->data(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](size_t i) const { return data()[i]; }
  operator std::span<const T>() const { return {data(), size()}; }

  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.values_ == b.values_ || std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::shared_ptr<const std::vector<T>> values_;  // null: empty
};

}  // namespace quire
