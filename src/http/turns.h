// Whose turn it is on an io thread. Each address has a line of its own there, and lines take turns: however many
// connections an address has with something to do, another waits for one turn of each line that is before it. Within a
// line those whose bytes have just come alternate with those who had a turn and have more to do, so that who asks for
// little is not behind those who ask for much. Nothing here needs memory. Io thread only.
#pragma once
#include <boost/intrusive/list.hpp>

namespace quire {

class Turns {
  using Hook = boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  template <class T>
  using List = boost::intrusive::list<T, boost::intrusive::constant_time_size<false>>;

 public:
  // What can wait for its turn, once at a time. Has left before it is destroyed.
  class Waiter : public Hook {
   public:
    bool waits() const { return is_linked(); }
  };
  // Those of one address. Lives longer than whoever waits in it; turns know of it only while somebody does, so that
  // another thread may end it then.
  class Line : public Hook {
    friend class Turns;
    List<Waiter> fresh_, again_;
    bool again_next_ = false;
  };

  // `again`: it had its turn just now, and has more to do. REQUIRES the line is used with these turns only.
  void push(Line& line, Waiter& waiter, bool again) {
    if (waiter.waits()) return;
    (again ? line.again_ : line.fresh_).push_back(waiter);
    if (!line.is_linked()) lines_.push_back(line);
  }
  // Waits no longer. REQUIRES it is this line that it may wait in.
  void leave(Line& line, Waiter& waiter) {
    if (!waiter.waits()) return;
    waiter.unlink();
    if (line.fresh_.empty() && line.again_.empty()) line.unlink();
  }
  // Whose turn it is, taken out of its line, which goes behind the others; null: nobody waits.
  Waiter* next() {
    if (lines_.empty()) return nullptr;
    Line& line = lines_.front();
    lines_.pop_front();
    List<Waiter>& from = line.fresh_.empty() || (line.again_next_ && !line.again_.empty()) ? line.again_ : line.fresh_;
    line.again_next_ = &from == &line.fresh_;
    Waiter& waiter = from.front();
    from.pop_front();
    if (!line.fresh_.empty() || !line.again_.empty()) lines_.push_back(line);
    return &waiter;
  }
  bool empty() const { return lines_.empty(); }

 private:
  List<Line> lines_;
};

}  // namespace quire
