#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

Fd open_null() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Fd, ClosesWhatItOwnsOnceAndAtOnceWhenItGetsAnother) {
  int first = -1, second = -1;
  {
    Fd a = open_null();
    Fd b = open_null();
    first = a.get(), second = b.get();
    EXPECT_TRUE(is_open(first) && is_open(second));
    a = std::move(b);
    EXPECT_EQ(a.get(), second);
    EXPECT_FALSE(is_open(first));
    const Fd c(std::move(a));
    EXPECT_EQ(c.get(), second);
    EXPECT_TRUE(is_open(second));
  }
  EXPECT_FALSE(is_open(second));
  Fd d = open_null();
  d = Fd();
  EXPECT_LT(d.get(), 0);
}

}  // namespace
}  // namespace quire
