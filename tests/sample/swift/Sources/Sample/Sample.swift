public func half(_ number: Int) -> Int {
    precondition(number % 2 == 0, "\(number) is odd")
    return number / 2
}
