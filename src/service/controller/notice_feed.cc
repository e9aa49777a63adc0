#include "service/controller/notice_feed.h"

#include <algorithm>

#include "proto/json.h"
#include "runtime/controller/controller.h"

namespace longhaul::service {

RenderedNotice Render(const LoggedNotice& logged) {
  const proto::Notice& notice = logged.notice;
  const auto* kind = proto::Notice::descriptor()->FindFieldByNumber(notice.kind_case());
  RenderedNotice rendered;
  rendered.id = logged.id;
  rendered.job = JobId(notice.job_id());
  rendered.kind = kind == nullptr ? "none" : kind->name();
  // Text from workers may hold any bytes: what is not UTF-8 becomes U+FFFD.
  rendered.json =
      proto::ToJson(notice).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  rendered.last = notice.has_state() && runtime::IsTerminal(notice.state().state());
  return rendered;
}

NoticeFeed::NoticeFeed(EventLog& log)
    : log_(log), from_((log.last_sequence() + 1) * kNoticesPerEvent - 1) {}

void NoticeFeed::Publish(const std::vector<LoggedNotice>& notices) {
  if (notices.empty()) return;
  std::vector<RenderedNotice> rendered;
  rendered.reserve(notices.size());
  for (const LoggedNotice& notice : notices) rendered.push_back(Render(notice));
  {
    std::lock_guard lock(mutex_);
    for (RenderedNotice& notice : rendered) newest_.push_back(std::move(notice));
    while (newest_.size() > kKept) {
      from_ = newest_.front().id;
      newest_.pop_front();
    }
  }
  published_.notify_all();
}

Result<NoticeFeed::Batch> NoticeFeed::After(uint64_t id, const JobId& job, size_t limit) {
  Batch batch;
  {
    std::lock_guard lock(mutex_);
    const uint64_t newest = newest_.empty() ? from_ : newest_.back().id;
    batch.through = std::max(id, newest);
    if (id >= from_) {
      auto next = std::upper_bound(
          newest_.begin(), newest_.end(), id,
          [](uint64_t value, const RenderedNotice& notice) { return value < notice.id; });
      for (; next != newest_.end() && batch.notices.size() < limit; ++next) {
        if (job.empty() || next->job == job) batch.notices.push_back(*next);
      }
      if (next != newest_.end()) batch.through = batch.notices.back().id;
      return batch;
    }
  }
  // The log may have more than was published; what is returned twice is what a later call filters
  // by `through`, so that must not be below it.
  ASSIGN_OR_RETURN(const std::vector<LoggedNotice> logged, log_.Notices(id, job, limit));
  for (const LoggedNotice& notice : logged) batch.notices.push_back(Render(notice));
  if (!logged.empty() && (logged.size() == limit || logged.back().id > batch.through)) {
    batch.through = logged.back().id;
  }
  return batch;
}

uint64_t NoticeFeed::Wait(uint64_t id, Duration limit) {
  std::unique_lock lock(mutex_);
  published_.wait_for(lock, limit,
                      [&] { return closed_ || (!newest_.empty() && newest_.back().id > id); });
  return newest_.empty() ? from_ : newest_.back().id;
}

void NoticeFeed::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  published_.notify_all();
}

bool NoticeFeed::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace longhaul::service
