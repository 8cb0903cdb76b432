#pragma once
// Pointers that know the array they came from, and where in the source they are used.

#include <compare>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "cuda_emulator/device_memory.h"
#include "cuda_emulator/shared_memory.h"

namespace kvc::cuda_emulated {

// An index, and where it stands: operator[] may have no parameter of its own for that.
struct At {
  std::ptrdiff_t index;
  Where where;
  template <class I>
  requires std::convertible_to<I, std::ptrdiff_t> At(I&& index, Where where = Where::current())
      : index(static_cast<std::ptrdiff_t>(std::forward<I>(index))), where(where) {}
};

// What shared and global pointers have in common: arithmetic that keeps the array's ends.
template <template <class> class Pointer, class T>
class CheckedPointer {
 public:
  CheckedPointer() = default;
  CheckedPointer(T* address, const void* begin, const void* end) : address_(address), begin_(begin), end_(end) {}
  T* address() const { return address_; }  // for what needs no check
  const void* begin() const { return begin_; }
  const void* end() const { return end_; }
  explicit operator bool() const { return address_ != nullptr; }

  friend Pointer<T> operator+(Pointer<T> p, std::ptrdiff_t by) { return {p.address_ + by, p.begin_, p.end_}; }
  friend Pointer<T> operator+(std::ptrdiff_t by, Pointer<T> p) { return p + by; }
  friend Pointer<T> operator-(Pointer<T> p, std::ptrdiff_t by) { return p + -by; }
  friend std::ptrdiff_t operator-(Pointer<T> a, Pointer<T> b) { return a.address_ - b.address_; }
  friend Pointer<T>& operator+=(Pointer<T>& p, std::ptrdiff_t by) { return p = p + by; }
  friend Pointer<T>& operator-=(Pointer<T>& p, std::ptrdiff_t by) { return p = p + -by; }
  friend Pointer<T>& operator++(Pointer<T>& p) { return p = p + 1; }
  friend bool operator==(Pointer<T> a, Pointer<T> b) { return a.address_ == b.address_; }
  friend auto operator<=>(Pointer<T> a, Pointer<T> b) { return a.address_ <=> b.address_; }

 protected:
  T* address_ = nullptr;
  const void* begin_ = nullptr;
  const void* end_ = nullptr;
};

template <class T>
class smem_ptr;

// `p[i]` and `*p` of shared memory: a value once read, and a place to assign to.
template <class T>
class SharedReference {
 public:
  SharedReference(T* address, const void* begin, const void* end, Where where)
      : address_(address), begin_(begin), end_(end), where_(where) {}
  operator std::remove_const_t<T>() && {
    touch(Access::read);
    return *address_;
  }
  void operator=(const T& value) && {
    touch(Access::write);
    *address_ = value;
  }
  void operator=(SharedReference&& other) && {
    const T value = std::move(other);
    std::move(*this) = value;
  }
  template <class U>
  void operator+=(const U& value) && {
    change([&](const T& old) { return static_cast<T>(old + value); });
  }
  template <class U>
  void operator-=(const U& value) && {
    change([&](const T& old) { return static_cast<T>(old - value); });
  }
  template <class U>
  void operator*=(const U& value) && {
    change([&](const T& old) { return static_cast<T>(old * value); });
  }
  template <class U>
  void operator|=(const U& value) && {
    change([&](const T& old) { return static_cast<T>(old | value); });
  }

  smem_ptr<T> operator&() && { return {address_, begin_, end_}; }

 private:
  void touch(Access access) const { touch_shared(address_, sizeof(T), alignof(T), begin_, end_, access, where_); }
  template <class Change>
  void change(const Change& changed) {
    touch(Access::read);
    const T value = changed(*address_);
    touch(Access::write);
    *address_ = value;
  }
  T* address_;
  const void* begin_;
  const void* end_;
  Where where_;
};

template <class T>
class smem_ptr : public CheckedPointer<smem_ptr, T> {
 public:
  using CheckedPointer<smem_ptr, T>::CheckedPointer;
  template <class U>
  requires(std::same_as<const U, T> && !std::same_as<U, T>) smem_ptr(smem_ptr<U> other)
      : smem_ptr(other.address(), other.begin(), other.end()) {}
  SharedReference<T> operator[](At at) const { return {this->address_ + at.index, this->begin_, this->end_, at.where}; }
  struct Here {
    smem_ptr pointer;
    Where where;
    Here(smem_ptr pointer, Where where = Where::current()) : pointer(pointer), where(where) {}
  };
  friend SharedReference<T> operator*(Here here) { return here.pointer[At(0, here.where)]; }
};

// Memory that raw pointers in tables lead to, while this object lives: what lies outside of all such memory is not
// checked.
class KnownMemory {
 public:
  KnownMemory(const void* begin, std::size_t bytes);
  ~KnownMemory();
  KnownMemory(const KnownMemory&) = delete;
  KnownMemory& operator=(const KnownMemory&) = delete;

 private:
  const void* begin_;
};
struct MemoryRange {
  const void* begin;
  const void* end;
};
MemoryRange known_memory_around(const void* address);

// Fails where `bytes` at `address` are outside of [begin, end) or not aligned. With options().detect_global_races also
// where another thread accessed them without a barrier between, or another block did, and one of the two writes; whether
// an access that may write did is seen from the value later.
void touch_global(const void* address, std::size_t bytes, std::size_t alignment, const void* begin, const void* end,
                  bool may_write, Where where);

template <class T>
class gmem_ptr : public CheckedPointer<gmem_ptr, T> {
 public:
  using CheckedPointer<gmem_ptr, T>::CheckedPointer;
  gmem_ptr(std::nullptr_t) {}
  gmem_ptr(T* address) : gmem_ptr(bytes_of_device(address), known_memory_around(address)) {}
  template <class U>
  requires(std::same_as<const U, T> && !std::same_as<U, T>) gmem_ptr(gmem_ptr<U> other)
      : gmem_ptr(other.address(), other.begin(), other.end()) {}
  template <class U>
  requires(std::same_as<const U, T> && !std::same_as<U, T>) gmem_ptr(U* address) : gmem_ptr(static_cast<T*>(address)) {}
  T& operator[](At at) const {
    T* address = this->address_ + at.index;
    touch_global(address, sizeof(T), alignof(T), this->begin_, this->end_, !std::is_const_v<T>, at.where);
    return *address;
  }
  struct Here {
    gmem_ptr pointer;
    Where where;
    Here(gmem_ptr pointer, Where where = Where::current()) : pointer(pointer), where(where) {}
  };
  friend T& operator*(Here here) { return here.pointer[At(0, here.where)]; }

 private:
  gmem_ptr(T* address, MemoryRange range) : gmem_ptr(address, range.begin, range.end) {}
};

template <class T>
gmem_ptr<T> checked(T* pointer, std::size_t count) {
  T* bytes = bytes_of_device(pointer);
  return {bytes, bytes, bytes + count};
}

template <class To, template <class> class Pointer, class From>
requires std::derived_from<Pointer<From>, CheckedPointer<Pointer, From>> Pointer<To> pointer_cast(Pointer<From> p) {
  static_assert(std::is_const_v<To> || !std::is_const_v<From>);
  return {reinterpret_cast<To*>(p.address()), p.begin(), p.end()};
}

template <class T>
smem_ptr<T> shared_array(const SharedArray& array) {
  return {reinterpret_cast<T*>(array.begin), array.begin, array.end};
}

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
std::remove_const_t<T> __ldg(gmem_ptr<T> pointer, Where where = Where::current()) {
  return pointer[At(0, where)];
}

}  // namespace kvc::cuda_emulated
