# The zygote's side of docs/cgi-zygote.md agrees with the vectors, which crates/cgi reads, too: the C files, through doors
# that only this test opens.
use strict;
use warnings;

use DynaLoader ();
use JSON::PP ();
use Test::More;

plan skip_all => 'the packets are those of a machine that puts the low byte first' if pack('L', 1) ne pack 'V', 1;

open my $file, '<:raw', 't/vectors/script.json' or die "t/vectors/script.json: $!";
my $vectors = JSON::PP::decode_json(join '', <$file>);
my %kind    = (loaded => 1, ready => 2, failed => 3, unfit => 4, forked => 5, refused => 6);

my ($object) = grep { -e } map { "$_/auto/Howdah/CGI/Fork/Fork.so" } @INC;
my $library = DynaLoader::dl_load_file($object // die("Fork.so is not built\n"), 0) or die DynaLoader::dl_error();
my ($read_launch, $write_report) = map { door($_) } qw(read_launch write_report);

for my $case (@{$vectors->{launches}}) {
    my ($arguments, $variables) = @{$case->{means}}{qw(arguments variables)};
    my @read = $read_launch->(packet($case), 3);
    is_deeply \@read, [scalar @$arguments, join '', map { "$_\0" } @$arguments, @$variables], "C reads $case->{packet}";
}
for my $case (@{$vectors->{'no launches'}}) {
    is_deeply [$read_launch->(packet($case), $case->{descriptors})], [], "C refuses $case->{why}";
}
for my $case (@{$vectors->{reports}}) {
    my ($kind, $value, $text) = @{$case->{means}}{qw(kind value text)};
    my $words = join '', map { $kind eq 'unfit' ? $_ : "$_\0" } @$text;
    is unpack('H*', $write_report->($kind{$kind}, $value, $words)), $case->{packet} =~ s/ //gr, "C writes $kind";
}
is length $write_report->(2, 0, 'x' x 300_000), 262_144, 'C cuts text at the longest packet';

my $load = do 'Howdah/CGI/Fork.pm' or die $@ || $!;
is eval { $load->('Build.PL') }, undef, 'what another perl was built for is not loaded';
like $@, qr/\A\Q$^X\E cannot load this; is Howdah built for another perl\? .*Build\.PL.*\n\z/,
    '... which is told in a line';

done_testing;

sub door {
    my $name   = shift;
    my $symbol = DynaLoader::dl_find_symbol($library, "howdah_fork_$name") or die "no $name in $object";
    return DynaLoader::dl_install_xsub("main::door_$name", $symbol, $object);
}

# A copy that may be written to.
sub packet { return scalar pack 'H*', $_[0]{packet} =~ s/ //gr }
