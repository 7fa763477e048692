#include "route/raised_flag.h"

#include <gtest/gtest.h>

#include <functional>
#include <new>

namespace quire {
namespace {

TEST(RaisedFlag, IsLoweredHoweverTheQuestionEnds) {
  const auto owner = std::make_shared<std::atomic<bool>>(true);
  std::atomic<bool>& flag = *owner;
  {
    std::function<void()> question = [raised = lower_at_end(flag, owner)] {};
    const std::function<void()> copy = question;
    question = nullptr;
    EXPECT_TRUE(flag) << "the question goes on";
  }
  EXPECT_FALSE(flag);
  flag = true;
  EXPECT_THROW([raised = lower_at_end(flag, owner)] { throw std::bad_alloc(); }(), std::bad_alloc);
  EXPECT_FALSE(flag);
}

TEST(RaisedFlag, KeepsItsOwner) {
  struct Owner {
    std::atomic<bool> flag{true};
  };
  auto owner = std::make_shared<Owner>();
  const std::weak_ptr<Owner> seen = owner;
  auto raised = lower_at_end(owner->flag, owner);
  owner = nullptr;
  EXPECT_FALSE(seen.expired());
  raised = nullptr;
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace quire
