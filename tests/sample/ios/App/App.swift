import SwiftUI

@main
struct SampleApp: App {
    var body: some Scene {
        WindowGroup { Text("sample") }
    }
}

func third(_ number: Int) -> Int {
    precondition(number % 3 == 0, "\(number) is not divisible by 3")
    return number / 3
}
