#include "training/thread_communicator.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

namespace longhaul::training {
namespace {

// What a rank brings to an operation of its group.
struct Offer {
  std::string operation;  // with type and size, which must be the same on all ranks
  at::Tensor values;
  std::vector<int64_t> sent;
};

// A thread that waits is woken by what it waits for alone.
struct Meeting {
  std::condition_variable complete;
  std::vector<Offer> offers;
  uint32_t arrived = 0;
  uint32_t left = 0;
};

struct Mailbox {
  std::condition_variable filled;
  std::deque<at::Tensor> letters;
};

// What the threads share. All waits end when a rank fails.
class Hall {
 public:
  explicit Hall(std::chrono::seconds patience) : patience_(patience) {}

  // Returns the offers of all ranks of the group's `number`-th operation.
  std::vector<Offer> Meet(const std::string& group, uint64_t number, uint32_t size, uint32_t rank,
                          Offer offer) {
    std::unique_lock lock(mutex_);
    Meeting& meeting = meetings_[{group, number}];
    meeting.offers.resize(size);
    const std::string operation = offer.operation;
    meeting.offers[rank] = std::move(offer);
    if (++meeting.arrived == size) meeting.complete.notify_all();
    Wait(lock, meeting.complete, group + ": " + operation, [&] { return meeting.arrived == size; });
    for (const Offer& other : meeting.offers) {
      if (other.operation == operation) continue;
      throw CommunicationError(group + ": one rank calls " + operation + ", another " +
                               other.operation);
    }
    std::vector<Offer> offers = meeting.offers;
    if (++meeting.left == size) meetings_.erase({group, number});
    return offers;
  }

  using Address = std::tuple<std::string, uint32_t, uint32_t, int64_t>;  // group, from, to, tag
  void Send(const Address& address, at::Tensor values) {
    const std::lock_guard lock(mutex_);
    Mailbox& box = mail_[address];
    box.letters.push_back(std::move(values));
    box.filled.notify_all();
  }
  at::Tensor Receive(const Address& address, const std::string& what) {
    std::unique_lock lock(mutex_);
    Mailbox& box = mail_[address];
    Wait(lock, box.filled, what, [&] { return !box.letters.empty(); });
    at::Tensor values = std::move(box.letters.front());
    box.letters.pop_front();
    if (box.letters.empty()) mail_.erase(address);
    return values;
  }

  void Fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    FailLocked(why);
  }
  const std::string& failure() const { return failure_; }

 private:
  void FailLocked(const std::string& why) {
    if (failure_.empty()) failure_ = why;
    for (auto& [key, meeting] : meetings_) meeting.complete.notify_all();
    for (auto& [address, box] : mail_) box.filled.notify_all();
  }

  template <typename Condition>
  void Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
            const std::string& what, Condition condition) {
    const bool done =
        changed.wait_for(lock, patience_, [&] { return condition() || !failure_.empty(); });
    if (!done) FailLocked("a rank waits in " + what);
    if (!failure_.empty()) throw CommunicationError(failure_);
  }

  const std::chrono::seconds patience_;
  std::mutex mutex_;
  std::string failure_;
  std::map<std::pair<std::string, uint64_t>, Meeting> meetings_;
  std::map<Address, Mailbox> mail_;
};

std::string Described(const char* operation, const at::Tensor& values, bool with_rows = true) {
  std::string text = std::string(operation) + " of " + c10::toString(values.scalar_type());
  for (int64_t i = with_rows ? 0 : 1; i < values.dim(); ++i) {
    text += (i == 0 || (!with_rows && i == 1) ? " " : "x") + std::to_string(values.size(i));
  }
  return text;
}

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(Hall& hall, std::string name, uint32_t size, uint32_t rank)
      : hall_(hall), name_(std::move(name)), size_(size), rank_(rank) {}

  uint32_t size() const override { return size_; }
  uint32_t rank() const override { return rank_; }

  void Sum(at::Tensor& values) override {
    const std::vector<Offer> offers = Meet(Described("a sum", values), values.clone());
    values.copy_(offers[0].values);
    for (uint32_t other = 1; other < size_; ++other) values.add_(offers[other].values);
  }

  void Max(at::Tensor& values) override {
    const std::vector<Offer> offers = Meet(Described("a maximum", values), values.clone());
    for (const Offer& other : offers) at::maximum_out(values, values, other.values);
  }

  at::Tensor AllGather(const at::Tensor& part) override {
    const std::vector<Offer> offers = Meet(Described("an all-gather", part), part.clone());
    std::vector<at::Tensor> parts;
    for (const Offer& other : offers) parts.push_back(other.values);
    return at::cat(parts, 0);
  }

  at::Tensor ReduceScatter(const at::Tensor& whole) override {
    const std::vector<Offer> offers = Meet(Described("a reduce-scatter", whole), whole.clone());
    const int64_t rows = whole.size(0) / size_;
    at::Tensor sum = offers[0].values.narrow(0, rank_ * rows, rows).clone();
    for (uint32_t other = 1; other < size_; ++other) {
      sum.add_(offers[other].values.narrow(0, rank_ * rows, rows));
    }
    return sum;
  }

  at::Tensor AllToAll(const at::Tensor& rows, std::span<const int64_t> sent,
                      std::span<const int64_t> received) override {
    Offer offer{Described("an all-to-all", rows, /*with_rows=*/false), rows.clone(), {}};
    offer.sent.assign(sent.begin(), sent.end());
    const std::vector<Offer> offers =
        hall_.Meet(name_, operations_++, size_, rank_, std::move(offer));
    std::vector<at::Tensor> parts;
    for (uint32_t other = 0; other < size_; ++other) {
      const std::vector<int64_t>& counts = offers[other].sent;
      int64_t begin = 0;
      for (uint32_t before = 0; before < rank_; ++before) begin += counts[before];
      if (counts[rank_] != received[other]) {
        throw CommunicationError(name_ + ": an all-to-all sends " + std::to_string(counts[rank_]) +
                                 " rows where " + std::to_string(received[other]) +
                                 " are expected");
      }
      parts.push_back(offers[other].values.narrow(0, begin, counts[rank_]));
    }
    return at::cat(parts, 0);
  }

  void Send(const at::Tensor& values, uint32_t to, int64_t tag) override {
    hall_.Send({name_, rank_, to, tag}, values.clone());
  }

  at::Tensor Receive(const at::Tensor& like, uint32_t from, int64_t tag) override {
    at::Tensor values = hall_.Receive(
        {name_, from, rank_, tag},
        name_ + ": a receive from " + std::to_string(from) + ", tag " + std::to_string(tag));
    if (values.sizes() != like.sizes() || values.scalar_type() != like.scalar_type()) {
      throw CommunicationError(name_ + ": " + Described("received", values) + ", expected" +
                               Described("", like));
    }
    return values;
  }

 private:
  std::vector<Offer> Meet(std::string operation, at::Tensor values) {
    return hall_.Meet(name_, operations_++, size_, rank_,
                      {std::move(operation), std::move(values), {}});
  }

  Hall& hall_;
  const std::string name_;
  const uint32_t size_;
  const uint32_t rank_;
  uint64_t operations_ = 0;
};

class ThreadMaker : public CommunicatorMaker {
 public:
  ThreadMaker(Hall& hall, uint32_t rank) : hall_(hall), rank_(rank) {}

 private:
  std::shared_ptr<Communicator> Create(const std::string& name,
                                       const std::vector<uint32_t>& ranks) override {
    const auto own = std::find(ranks.begin(), ranks.end(), rank_);
    if (own == ranks.end()) throw CommunicationError(name + ": this rank is not in the group");
    std::string key = name;
    for (const uint32_t rank : ranks) key += ' ' + std::to_string(rank);
    return std::make_shared<ThreadCommunicator>(hall_, std::move(key),
                                                static_cast<uint32_t>(ranks.size()),
                                                static_cast<uint32_t>(own - ranks.begin()));
  }

  Hall& hall_;
  const uint32_t rank_;
};

}  // namespace

std::string RunThreads(uint32_t world, std::chrono::seconds patience,
                       const std::function<void(uint32_t, CommunicatorMaker&)>& body) {
  Hall hall(patience);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadMaker maker(hall, rank);
      try {
        body(rank, maker);
      } catch (const std::exception& error) {
        const std::string message = error.what();
        hall.Fail(message.substr(0, message.find('\n')));  // c10 adds a backtrace
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return hall.failure();
}

}  // namespace longhaul::training
