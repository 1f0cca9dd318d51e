# The zygote's side of docs/zygote-protocol.md agrees with the vectors, which crates/supervisor reads, too: the C files,
# through their doors, the Perl module for the specification, and the fake zygote of the supervisor's tests.
use strict;
use warnings;
use lib 'crates/supervisor/tests/fake';

use Howdah::FakeProtocol;
use Howdah::XS;
use Howdah::ZygoteSpec;
use JSON::PP;
use Socket qw(AF_UNIX SOCK_SEQPACKET);
use Test::More;

open my $file, '<:raw', 't/vectors/zygote.json' or die "t/vectors/zygote.json: $!";
my $vectors = JSON::PP::decode_json(join '', <$file>);

plan skip_all => 'the packets are those of a machine that puts the low byte first' if pack('L', 1) ne pack 'V', 1;

my %sides = (
    'C' => {
        read_order   => \&Howdah::XS::read_order,
        write_report => \&Howdah::XS::write_report,
        number       => sub { Howdah::XS->can($_[0])->() },
    },
    'the fake zygote' => {
        read_order   => sub { Howdah::FakeProtocol->read_order(@_) },
        write_report => sub { Howdah::FakeProtocol->write_report(@_) },
        number       => sub { Howdah::FakeProtocol->number($_[0]) },
    },
);

for my $name (sort keys %sides) {
    my $side = $sides{$name};
    for my $case (@{$vectors->{orders}}) {
        my @read = $side->{read_order}->(packet($case), $case->{descriptors});
        is_deeply(\@read, [order($side, $case->{means})], "$name reads $case->{means}{kind}: $case->{packet}");
    }
    for my $case (@{$vectors->{'no orders'}}) {
        my @read = $side->{read_order}->(packet($case), $case->{descriptors});
        is_deeply(\@read, [], "$name refuses $case->{why}");
    }
    for my $case (@{$vectors->{reports}}) {
        my $written = $side->{write_report}->(report($side, $case->{means}));
        is(unpack('H*', $written), $case->{packet} =~ s/ //gr, "$name writes $case->{means}{kind}");
    }
    my $long = $side->{write_report}->($side->{number}->('ZYGOTE_REPORT_LOG'), 0, 0, 0, 'x' x 70_000);
    is(length $long, 65_536, "$name cuts text at the longest packet");
}

for my $case (@{$vectors->{specifications}}) {
    is_deeply({Howdah::ZygoteSpec->read($case->{text})}, $case->{means}, 'Perl reads a specification');
}
for my $text (@{$vectors->{'no specifications'}}) {
    ok(!eval { Howdah::ZygoteSpec->read($text); 1 }, "Perl refuses the specification '$text'");
    like($@, qr/^the specification of a zygote is not what the howdah command writes$/);
}

socketpair my $front, my $zygote, AF_UNIX, SOCK_SEQPACKET, 0 or die "socketpair: $!";
send $front, 'attach 1 1 1 0123456789abcdef', 0;
ok(!eval { Howdah::XS::attach(fileno $zygote); 1 }, 'what is no attach does not attach');
like($@, qr/install front and Perl modules of one version/, 'and says what to do');
close $front;
is_deeply([Howdah::XS::attach(fileno $zygote)], [], 'nothing is returned when the front is gone');
ok(!Howdah::XS::report(fileno $zygote, Howdah::XS::ZYGOTE_REPORT_READY(), ''), 'nor can it be told anything');

sub packet { return pack 'H*', $_[0]{packet} =~ s/ //gr }

# What `read_order` returns.
sub order {
    my ($side, $means) = @_;
    my $flags = 0;
    $flags |= $side->{number}->('ZYGOTE_TITLES') if $means->{titles};
    $flags |= $side->{number}->('ZYGOTE_ERRORS') if $means->{secret};
    $flags |= $means->{signal} // 0;
    my $kind = $side->{number}->('ZYGOTE_ORDER_' . uc $means->{kind});
    return ($kind, $means->{worker} // 0, $means->{generation} // 0, $flags, $means->{secret} // "\0" x 16);
}

# What `write_report` takes.
sub report {
    my ($side, $means) = @_;
    my $kind = $side->{number}->('ZYGOTE_REPORT_' . uc $means->{kind});
    return ($kind, (map { $means->{$_} // 0 } qw(worker pid status)), $means->{text} // '');
}

done_testing;
